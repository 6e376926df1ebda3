"""A field that a release only respelled has one annotation."""

import ast

import pytest

from grpo_recipes.facts.source.field import plain_annotation


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("int | None", "int | None"),
        ("Literal['none', 'all']", "Literal['none', 'all']"),
        ("Optional[int]", "int | None"),
        ("typing.Optional[typing.List[str]]", "list[str] | None"),
        ("Union[None, str, List[str]]", "str | list[str] | None"),
        ("Optional[Union[Dict[str, Any], str]]", "dict[str, Any] | str | None"),
        ("'Optional[Tuple[int, int]]'", "tuple[int, int] | None"),
        ("Optional[Literal['a', 'b']]", "Literal['a', 'b'] | None"),
        ("Callable[[List[int]], Optional[float]]", "Callable[[list[int]], float | None]"),
        ("torch.dtype", "torch.dtype"),
        ("'not a type!'", "'not a type!'"),
    ],
)
def test_an_annotation_is_written_as_newest_python_does(written: str, plain: str) -> None:
    assert plain_annotation(ast.parse(written, mode="eval").body) == plain
