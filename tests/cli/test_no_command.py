"""A first word that is neither a command nor a file gets the command that was meant."""

from collections.abc import Callable
from pathlib import Path

import pytest

from grpo_recipes.cli.main import COMMANDS


@pytest.mark.parametrize("word", ["lst", "vaildate", "list", "train"])
def test_a_file_of_that_name_is_a_recipe(
    word: str, tmp_path: Path, grpo_run: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / word).write_text("")
    answer = grpo_run(word)
    assert answer.code == 2
    assert answer.err.startswith(f"{word}:1:1: error: the file is empty")


@pytest.mark.parametrize("word", ["recipe.yml", "recipes/list", "./list", "../vaildate"])
def test_what_is_written_as_a_path_is_a_missing_file(
    word: str, tmp_path: Path, grpo_run: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "is not a command" not in grpo_run(word).err


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["vaildate", "my recipe.yaml", "--strict"], "grpo-run validate 'my recipe.yaml' --strict"),
        (["Validate", "a.yaml"], "grpo-run validate a.yaml"),
        (["pre-flight", "a.yaml"], "grpo-run preflight a.yaml"),
        (["dif", "a", "b"], "grpo-run diff a b"),
        (["mine"], "grpo-run mine.yaml"),
        (["zzz"], "the file of a recipe; grpo-run --help lists the commands"),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
def test_a_word_that_is_none_gets_what_was_meant(
    words: list[str], fix: str, tmp_path: Path, grpo_run: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("")
    answer = grpo_run(*words)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.splitlines() == [
        f"error: {words[0]!r} is not a command",
        f"  = because: no file has this name, and the commands are {', '.join(COMMANDS)}",
        f"  = fix: {fix}",
    ]
