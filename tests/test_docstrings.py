"""A docstring names its subject: it is read alone, in an editor, in help() or in a schema."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sources import nodes_of

import grpo_recipes

PACKAGE = Path(grpo_recipes.__file__).parent
# Words that stand for something that was named before, of which nothing stands before a docstring.
OF_NOTHING = re.compile(
    r"(?:(?:Whether|What|Where|Why|How|Tells|Says) )?(?:it|its|they|their|them)\b"
    r"|(?:the same|this|these|that|those|one that)\b",
    re.IGNORECASE,
)
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def begins_with_nothing(text: str) -> bool:
    """Whether a docstring begins with a word for what nobody named."""
    return OF_NOTHING.match(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "The shipped recipes by name.",
        "Items of a list, in their order.",
        "Iterates over the rows.",
        "Theirs or ours: who wrote a file.",
        "What a recipe says.",
        "Where the items lie.",
        "Whether an item is there.",
    ],
)
def test_a_docstring_with_a_subject_is_let_through(text: str) -> None:
    assert not begins_with_nothing(text)


@pytest.mark.parametrize(
    "text",
    [
        "It can work.",
        "Its path.",
        "The same for programs.",
        "They come in order.",
        "This process ends.",
        "That of the stream.",
        "Those in runs/.",
        "One that called.",
        "Tells it while no trainer writes.",
        "Whether it was a terminal.",
        "What it has.",
    ],
)
def test_a_docstring_without_one_is_found(text: str) -> None:
    assert begins_with_nothing(text)


def test_every_docstring_names_its_subject() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{getattr(node, 'lineno', 1)}: {text.splitlines()[0]}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node, text in _docstrings(path)
        if begins_with_nothing(text)
    ]
    assert found == []


def _docstrings(path: Path) -> Iterator[tuple[Documented, str]]:
    for node in nodes_of(path):
        if isinstance(node, Documented):
            text = ast.get_docstring(node)
            if text:
                yield node, text
