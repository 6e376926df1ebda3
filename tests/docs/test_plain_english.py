"""Pages that are written by hand, and docstrings, have no phrase that reads as translated."""

import ast
import re
from pathlib import Path

import pytest
from support.plain_english import translated_phrases
from support.sources import nodes_of

ROOT = Path(__file__).parents[2]
MADE = {"recipe-reference.md", "catalogue.md"}
PAGES = [*ROOT.glob("*.md"), *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in MADE)]


def _prose(text: str) -> str:
    """The text without its code, on the same lines."""
    return re.sub(r"(?ms)^```.*?^```|`[^`]*`", lambda code: "\n" * code[0].count("\n"), text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_in_plain_english(page: Path) -> None:
    found = [f"{page.relative_to(ROOT)}:{phrase}" for phrase in translated_phrases(_prose(page.read_text("utf-8")))]
    assert found == [], "\n".join(found)


def test_docstrings_are_in_plain_english() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}: {phrase}"
        for path in sorted((ROOT / "grpo_recipes").rglob("*.py"))
        for node in nodes_of(path)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for phrase in translated_phrases(_prose(node.value.value.replace("None", "null")))
    ]
    assert found == [], "\n".join(found)


def test_code_and_plain_words_are_let_through() -> None:
    assert list(translated_phrases(_prose("It stands in for none.\n`whoever`\n```\nwithout a word\n```\n"))) == []


def test_a_phrase_is_found_with_its_line_and_what_to_write() -> None:
    text = "`a`\n```\ncode\n```\nA key is dropped without\na word, and the run Goes on with it."
    assert list(translated_phrases(_prose(text))) == [
        '6: "Goes on with", write: resume, continue',
        '5: "without a word", write: silently',
    ]
