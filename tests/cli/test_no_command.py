"""A first word that is neither a command nor a file, and an option that is none, get what was meant."""

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
        (["train", "a.yaml", "--smoke"], "grpo-run a.yaml --smoke"),
        (["resume", "runs/a"], "grpo-run runs/a --resume"),
        (["check", "a.yaml"], "grpo-run validate a.yaml"),
        (["eval", "runs/a"], "grpo-run generate runs/a"),
        (["talk", "runs/a"], "grpo-run chat runs/a"),
        (["merge", "runs/a"], "grpo-run export runs/a"),
        (["list"], "grpo-run runs"),
        (["estimate", "a.yaml"], "grpo-run fit a.yaml"),
        (["convert", "verl.yaml"], "grpo-run init --from verl.yaml"),
        (["version"], "grpo-run --version"),
        (["help"], "grpo-run --help"),
        (["help", "sweep"], "grpo-run sweep --help"),
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


@pytest.mark.parametrize(
    ("words", "way"),
    [
        (["--seed", "3"], "seed=3"),
        (["--max_steps=5"], "training.max_steps=5"),
        (["--learning-rate", "1e-5", "--smoke"], "training.learning_rate=1e-5"),
        (["--lr", "1e-5"], "training.learning_rate=1e-5"),
        (["--epochs"], "training.num_train_epochs=VALUE"),
        (["--beta", "--smoke"], "grpo.beta=VALUE"),
        (["--model_name_or_path", "my model"], "'model.model_name_or_path=my model'"),
        (["--full_determinism", "true"], "trl.full_determinism=true"),
        (["--training.max_steps", "5"], "training.max_steps=5"),
        (["--gpus", "8"], "launch.num_processes=8"),
        (["--nproc-per-node", "8"], "launch.num_processes=8"),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
@pytest.mark.parametrize("command", ["run", "plan", "sweep"])
def test_an_option_with_the_name_of_a_key_is_given_with_set(
    command: str, words: list[str], way: str, grpo_run: Callable
) -> None:
    option = words[0].partition("=")[0]
    words = [word for word in words if command == "run" or word != "--smoke"]
    answer = grpo_run(command, "recipe.yaml", *words)
    assert answer.code == 2
    assert answer.err.splitlines()[-1] == (
        f"Error: No such option '{option}'. Set a value of the recipe with --set {way}"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "a.yaml", "--foo"),
        ("report", "runs", "--seed"),
        ("plan", "a", "--jsn"),
        ("plan", "a.yaml", "--model", "x"),
    ],
    ids=lambda words: words[2],
)
def test_an_option_without_a_key_of_one_value_is_only_unknown(words: tuple[str, ...], grpo_run: Callable) -> None:
    answer = grpo_run(*words)
    assert (
        answer.code == 2
        and f"No such option '{words[2]}'" in answer.err
        and "Set a value of the recipe" not in answer.err
    )


@pytest.mark.parametrize(
    ("words", "ways"),
    [
        (["--set", "training.learning_rate", "1e-5"], "--set training.learning_rate=1e-5"),
        (["training.learning_rate=1e-5"], "--set training.learning_rate=1e-5"),
        (["+seed=3", "rewards[0].weight=2"], "--set seed=3 --set 'rewards[0].weight=2'"),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
def test_a_value_without_set_gets_it(words: list[str], ways: str, grpo_run: Callable) -> None:
    answer = grpo_run("recipe.yaml", *words)
    assert answer.code == 2
    assert answer.err.splitlines()[-1].endswith(f". Set a value of the recipe with {ways}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["recipe.yaml", "--output_dir", "x"], "Did you mean '--out'?"),
        (["recipe.yaml", "--reward", "accuracy"], "see grpo-run explain rewards"),
        (["recipe.yaml", "more"], "Got unexpected extra argument (more)"),
        (["runs/addition-2026"], "= fix: runs/addition-20260101"),
        (["addition"], "= fix: addition.yaml, if you meant that"),
    ],
    ids=lambda words: words[-1] if isinstance(words, list) else "",
)
def test_a_slip_gets_one_line_that_helps(
    words: list[str], said: str, tmp_path: Path, grpo_run: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "addition-20260101").mkdir(parents=True)
    (tmp_path / "runs" / "addition-20260101" / "plan.json").touch()
    (tmp_path / "addition").mkdir()
    (tmp_path / "addition.yaml").touch()
    answer = grpo_run(*words)
    assert answer.code == 2
    assert said in answer.err
