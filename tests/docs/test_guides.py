"""The guides stay short enough to be read, and the start page leads to every answer."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MOST_WORDS = 30_000
QUESTIONS = 40
# The reference, and what a command writes as a whole; docs/rules/ has none but such pages.
NO_GUIDES = {"recipe-reference.md", "api.md", "catalogue.md", "results.md", "failures.md"}
BLOCK = re.compile(r"(?s)<!-- made by .*?<!-- end -->")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#[^)]*)?\)")


def words_of_guides() -> dict[str, int]:
    """Words of README.md and each guide, as `wc -w` counts, without the blocks that a command writes."""
    guides = [ROOT / "README.md", *(page for page in sorted(DOCS.glob("*.md")) if page.name not in NO_GUIDES)]
    return {page.name: len(BLOCK.sub("", page.read_text(encoding="utf-8")).split()) for page in guides}


def test_the_guides_have_at_most_thirty_thousand_words() -> None:
    words = words_of_guides()
    longest = sorted(words, key=lambda name: -words[name])[:5]
    assert sum(words.values()) <= MOST_WORDS, f"shorten a guide; the longest are {longest}"


def test_the_page_of_questions_has_forty_short_answers_with_a_link() -> None:
    page = (DOCS / "faq.md").read_text(encoding="utf-8")
    answers = dict(re.findall(r"(?ms)^\*\*(.+?\?)\*\*(.*?)(?=^\*\*|^#|\Z)", page))
    assert len(answers) >= QUESTIONS
    prose = {question: re.sub(r"(?ms)^```.*?^```", "", answer).strip() for question, answer in answers.items()}
    assert [question for question, answer in prose.items() if len(answer.splitlines()) > 4] == []
    assert [question for question, answer in answers.items() if not LINK.search(answer)] == []


def test_the_start_pages_link_to_the_questions() -> None:
    for start, page in ((ROOT / "README.md", "docs/faq.md"), (DOCS / "index.md", "faq.md")):
        assert page in LINK.findall(start.read_text(encoding="utf-8")), start.name


def test_instructions_for_agents_are_short_and_linked() -> None:
    assert len((ROOT / "AGENTS.md").read_text(encoding="utf-8").split()) <= 600
    assert "AGENTS.md" in LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
