"""The guides stay short enough to be read, and their answers have commands and keys that exist."""

import re
from pathlib import Path

import click
import pytest
import yaml

from grpo_recipes.api import validate
from grpo_recipes.cli.main import COMMANDS, grpo_run
from grpo_recipes.schemas.fast_accept import recipe_keys
from grpo_recipes.schemas.models import sections

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MOST_WORDS = 30_000
QUESTIONS = 40
# The reference, and what a command writes as a whole; docs/rules/ has none but such pages.
NO_GUIDES = {"recipe-reference.md", "api.md", "catalogue.md", "results.md", "failures.md"}
BLOCK = re.compile(r"(?s)<!-- made by .*?<!-- end -->")
COMMAND = re.compile(r"`(grpo-run [^`]*)`|(?m:^(?:\$ )?(grpo-run [^#\n]*))")
ROWS = "".join(f'{{"question": "1+{number}=", "answer": "{number + 1}"}}\n' for number in range(64))
LINK = re.compile(r"\]\(([^)#\s]*)(?:#[^)]*)?\)")


GUIDES = [ROOT / "README.md", *(page for page in sorted(DOCS.glob("*.md")) if page.name not in NO_GUIDES)]


def words_of_guides() -> dict[str, int]:
    """Words of README.md and each guide, as `wc -w` counts, without the blocks that a command writes."""
    return {page.name: len(BLOCK.sub("", page.read_text(encoding="utf-8")).split()) for page in GUIDES}


def _keys_of(values: object, prefix: str = "") -> set[str]:
    """The keys of a part of a recipe; those in a list are the section's."""
    if isinstance(values, list):
        return {key for value in values for key in _keys_of(value, prefix)}
    if not isinstance(values, dict):
        return {prefix}
    return {found for key, value in values.items() for found in _keys_of(value, f"{prefix}.{key}".lstrip("."))}


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
    assert len((ROOT / "AGENTS.md").read_text(encoding="utf-8").split()) <= 700
    assert "AGENTS.md" in LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))


def test_the_recipe_for_agents_has_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (recipe,) = re.findall(r"(?ms)^```yaml\n(.*?)^```$", (ROOT / "AGENTS.md").read_text(encoding="utf-8"))
    for name, text in (("recipe.yaml", recipe), ("train.jsonl", ROWS), ("held_out.jsonl", ROWS.replace("1+", "2+"))):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    assert validate("recipe.yaml", target="tested,gpus=1xA100-80GB") == ()


def test_the_recipes_of_the_answers_have_keys_of_the_format() -> None:
    page = re.sub(r"(?ms)^```.*?^```", "", (DOCS / "faq.md").read_text(encoding="utf-8"))
    shown = [" ".join(code.split()) for code in re.findall(r"`(\w+: [\[{][^`]*)`", page)]
    assert len(shown) > 15
    keys = {key for code in shown for key in _keys_of(yaml.safe_load(code))}
    known = set(recipe_keys()) - set(sections())  # dataset.columns has keys of the user's own
    assert [key for key in keys if not {key, key.rpartition(".")[0]} & known] == []


@pytest.mark.parametrize("page", [*GUIDES, ROOT / "AGENTS.md"], ids=lambda page: page.name)
def test_the_options_of_shown_commands_exist(page: Path) -> None:
    unknown = []
    for shown in COMMAND.findall(page.read_text(encoding="utf-8")):
        words = "".join(shown).split()
        name = words[1] if words[1] in COMMANDS else "run"
        command = grpo_run.get_command(click.Context(grpo_run), name)
        assert command is not None
        options = {"--help"} | {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
        unknown += [f"{name} {word}" for word in words if re.fullmatch(r"--?[a-z][\w-]*", word) and word not in options]
    assert unknown == []


def test_pages_and_sections_that_messages_name_exist() -> None:
    named = {
        match.groups()
        for path in (ROOT / "grpo_recipes").rglob("*")
        if path.suffix in (".py", ".yaml", ".json", ".j2")
        for match in re.finditer(r"docs/([a-z-]+\.md)(?:, ([A-Z][a-z ]+))?", path.read_text(encoding="utf-8"))
    }
    assert ("rewards.md", "A judge") in named
    for page, section in sorted(named, key=str):
        text = (DOCS / page).read_text(encoding="utf-8")
        assert section is None or f"## {section}\n" in text, f"{page} has no section {section}"
