"""TOL003: what get_json_schema raises for, and what it reads of docstrings."""

import random
from pathlib import Path

import pytest
from library import Library

from grpo_recipes.rules.tool_describes_itself import slips
from grpo_recipes.user_files.functions.docstring_texts import argument_texts, description
from grpo_recipes.user_files.functions.documented import read_function

pytestmark = pytest.mark.stack

HEAD = """
import datetime
import typing
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Dict, List, Literal, NamedTuple, Optional, Set, Tuple, TypedDict, Union


class Color(Enum):
    RED = "red"


class Plain:
    pass


class Row(TypedDict):
    a: int


class Pair(NamedTuple):
    a: int
"""
HINTS = [
    "int",
    "float",
    "str",
    "bool",
    "list",
    "tuple",
    "dict",
    "Any",
    "None",
    "typing.Any",
    "Color",
    "list[int]",
    "list[Color]",
    "dict[str,int]",
    "dict[str,set[int]]",
    "tuple[int,str]",
    "tuple[int]",
    "tuple[int,...]",
    "set[int]",
    "set",
    "bytes",
    "object",
    "complex",
    "Plain",
    "Row",
    "Pair",
    "Path",
    "datetime.date",
    "int|None",
    "int|set[int]",
    "Optional[int]",
    "Optional[Plain]",
    "Union[int,str]",
    "Union[int,Path]",
    "Literal['a','b']",
    "Literal[1,None]",
    "List[int]",
    "List",
    "List[Path]",
    "Dict[str,int]",
    "Tuple[int,int]",
    "Set[int]",
    "Sequence[int]",
    "Sequence",
    "Annotated[int,'metres']",
    "Annotated[Plain,1]",
    "'int'",
    "'Plain'",
    "'list[int]'",
    "list['Plain']",
    "typing.Optional[typing.List[str]]",
    "frozenset",
    "type",
]
SAYS = 'def f({}):\n    """Says.\n\n    Args:\n{}    """'


def _f(signature: str, *lines: str) -> str:
    """A function with these parameters, and these lines under its `Args:`."""
    return SAYS.format(signature, "".join(f"        {line}\n" for line in lines))


BODIES = {
    "no docstring": "def f(a: int): return a",
    "no docstring and no parameters": "def f(): return 1",
    "nothing but a docstring": 'def f():\n    """Says."""',
    "no type hint": _f("a", "a: one"),
    "no section": 'def f(a: int):\n    """Says."""',
    "the section in the first line": 'def f(a: int):\n    """Args:\n        a: one\n    """',
    "another parameter": _f("a: int", "b: one"),
    "types in brackets": _f("a: int", "a (int): one"),
    "an argument without a text": _f("a: int, b: int", "a:", "b: two"),
    "the last one without a text": _f("a: int, b: int", "a: one", "b:"),
    "one that is indented deeper": _f("a: int, b: int", "a: one", "    b: two"),
    "choices": _f("a: str", 'a: what (choices: ["x", "y"])'),
    "choices in Python": _f("a: str", "a: what (choices: ['x'])"),
    "choices that are a number": _f("a: str", "a: what (choices: 3)"),
    "a default": _f('a: int = 1, *, b: str = "x"', "a: one", "b: two"),
    "a return hint that no JSON says": _f("a: int", "a: one").replace("):", ") -> Plain:", 1),
    "an empty docstring": 'def f(a: int):\n    """"""',
}


def _is_found(source: str, folder: Path) -> bool:
    place = folder / "source.py"
    place.write_text(source)
    function = read_function(str(place), "f")
    assert function is not None
    return bool(list(slips(function, reads_types=True)))


@pytest.fixture(scope="module")
def of_hints() -> list[str]:
    body = '\n\ndef f(a: {}):\n    """Says.\n\n    Args:\n        a: one\n    """\n'
    return [HEAD + body.format(hint) for hint in HINTS]


def test_a_type_hint_is_found_exactly_where_it_raises(library: Library, of_hints: list[str], tmp_path: Path) -> None:
    answers = library.call("in_tools.schemas", sources=of_hints).result
    raising = [hint for hint, answer in zip(HINTS, answers, strict=True) if isinstance(answer, list)]
    assert len(raising) > 10
    assert [h for h, source in zip(HINTS, of_hints, strict=True) if _is_found(source, tmp_path)] == raising


def test_a_docstring_is_found_exactly_where_it_raises(library: Library, tmp_path: Path) -> None:
    sources = [f"{HEAD}\n\n{body}\n" for body in BODIES.values()]
    answers = library.call("in_tools.schemas", sources=sources).result
    raising = [name for name, answer in zip(BODIES, answers, strict=True) if isinstance(answer, list)]
    assert len(raising) > 5
    assert [name for name, source in zip(BODIES, sources, strict=True) if _is_found(source, tmp_path)] == raising


def test_a_description_that_is_missing_is_read_as_an_empty_one(library: Library) -> None:
    (answer,) = library.call("in_tools.schemas", sources=['def f():\n    """Returns:\n        two\n    """\n']).result
    assert answer["description"] == ""


PIECES = ["Says.", "words ", " ", "\t", "    ", "\n", "\n\n", "Args:\n", "Args:", "Returns:\n", "Raises:", "a:"]
PIECES += ["b: two", "a (int): one", "c: d: e", "\n    a: one\n", "\n        deeper: yes"]


def test_docstrings_are_read_as_transformers_reads_them(library: Library) -> None:
    draws = random.Random(0)
    texts = ["".join(draws.choices(PIECES, k=draws.randint(1, 14))) for _ in range(3000)]
    answers = library.call("in_tools.read_all", docstrings=texts).result
    ours = [[description(text), dict(argument_texts(text, reads_types=True))] for text in texts]
    assert [(t, a, b) for t, a, b in zip(texts, ours, answers, strict=True) if a != b] == []
    assert sum(bool(arguments) for _, arguments in ours) > 100
