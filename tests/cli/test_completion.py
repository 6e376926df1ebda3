"""What a shell offers behind the words of a command line, as click's own script asks for it."""

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from grpo_recipes.cli.main import Commands, grpo_run

FILES = ("file", "")


def offered(*words: str, begun: str = "") -> list[tuple[str, str]]:
    """Kind and text of what is offered for the word that was begun."""
    shell = ShellComplete(grpo_run, {}, "grpo-run", "_GRPO_RUN_COMPLETE")
    return [(item.type, item.value) for item in shell.get_completions(list(words), begun)]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with two recipes."""
    monkeypatch.chdir(tmp_path)
    for name in ("plain.yaml", "rows.yml", "notes.txt"):
        (tmp_path / name).write_text("")


def test_the_first_word_is_a_command_or_a_recipe() -> None:
    assert offered(begun="pl") == [("file", "pl"), ("plain", "plan"), ("plain", "plain.yaml")]
    assert offered(begun="no") == [("file", "no")]  # the shell's own: it knows notes.txt, and folders
    assert ("plain", "rows.yml") in offered()


def test_the_first_word_is_completed_without_importing_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def imported(_: Commands, __: object, name: str) -> None:
        raise AssertionError(f"{name} was imported")

    monkeypatch.setattr(Commands, "get_command", imported)
    assert [word for _, word in offered(begun="val")] == ["val", "validate"]


def test_accept_offers_the_rules_that_it_takes() -> None:
    offers = [word for _, word in offered("validate", "--accept", begun="GEN")]
    assert "GEN001" in offers
    assert [word for _, word in offered("validate", "--accept", begun="TRU")] == []
    assert "DAT001" not in [word for _, word in offered("validate", "--accept", begun="DAT")]


@pytest.mark.parametrize(
    "words",
    [
        ["run"],
        ["validate"],
        ["validate", "plain.yaml"],
        ["preflight"],
        ["plan"],
        ["diff", "plain.yaml"],
        ["init", "--from"],
        ["init", "-o"],
        ["plan", "plain.yaml", "--target"],
        ["plain.yaml", "--out"],
        ["sweep"],
        ["sweep", "plain.yaml", "--out"],
        ["explain", "beta", "--recipe"],
    ],
    ids=" ".join,
)
def test_where_a_file_belongs_the_shell_offers_its_files(words: list[str]) -> None:
    assert offered(*words) == [FILES]


def test_names_are_offered_where_there_are_some() -> None:
    assert ("plain", "grpo.beta=") in offered("plain.yaml", "--set", begun="grpo.")
    assert ("plain", "grpo.beta=") in offered("sweep", "plain.yaml", "--vary", begun="grpo.")
    assert ("plain", "BAT001") in offered("explain", begun="BAT")
    assert ("plain", "training.learning_rate") in offered("explain", begun="training.")
    assert ("plain", "quickstart") in offered("init", begun="qu")


def test_options_are_offered_behind_a_recipe() -> None:
    assert offered("plain.yaml", begun="--dr") == [("plain", "--dry-run")]


def test_a_word_that_is_none_is_no_error_while_a_line_is_completed() -> None:
    assert offered("nothing", begun="") == []
