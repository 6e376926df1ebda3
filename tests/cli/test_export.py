"""What `grpo-run export` refuses before anything is loaded."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

RECIPE = Path(__file__).parents[2] / "recipes" / "quickstart.yaml"

WORDS = {
    "adapter of another dtype": (
        ("--adapter", "--dtype", "float16"),
        "--adapter exports the trained tensors unchanged",
    ),
    "public without a hub": (("--public",), "--public needs --push"),
    "no owner": (("--push", "mine"), "--push mine: a repository has an owner and a name"),
}


@pytest.mark.parametrize("case", WORDS)
def test_words_that_do_not_go_together_are_refused(case: str, grpo_run: Callable, tmp_path: Path) -> None:
    words, said = WORDS[case]
    answer = grpo_run("export", str(tmp_path), "-o", str(tmp_path / "out"), *words)
    assert answer.code == 2
    assert said in answer.err


def test_what_is_no_run_is_refused(grpo_run: Callable, tmp_path: Path) -> None:
    answer = grpo_run("export", str(tmp_path), "-o", str(tmp_path / "out"))
    assert answer.code == 2
    assert "is not a run folder" in answer.err


@pytest.mark.parametrize("command", ["report", "watch"])
def test_a_recipe_in_the_place_of_a_run_is_named(command: str, grpo_run: Callable) -> None:
    answer = grpo_run(command, str(RECIPE))
    assert answer.code == 2
    assert "quickstart.yaml is not a run folder\n  = because: it is a recipe" in answer.err


@pytest.mark.parametrize("command", ["export", "generate", "chat"])
def test_a_recipe_and_a_part_of_a_run_are_told_from_a_run(command: str, grpo_run: Callable, tmp_path: Path) -> None:
    run = tmp_path / "a run"
    (run / "checkpoints" / "checkpoint-1").mkdir(parents=True)
    (run / "plan.json").write_text("{}")
    rest = {"export": ("-o", str(tmp_path / "out")), "generate": ("1+1=",), "chat": ()}[command]
    recipe = grpo_run(command, str(RECIPE), *rest)
    assert recipe.code == 2
    assert "quickstart.yaml is not a run folder" in recipe.err
    assert "= because: it is a recipe" in recipe.err and "= fix: name the folder of a run" in recipe.err
    for part in ("checkpoints", "checkpoints/checkpoint-1"):
        within = grpo_run(command, str(run / part), *rest)
        assert within.code == 2
        assert f"{part} is not a run folder" in within.err


@pytest.mark.slow
def test_a_run_that_trained_nothing_has_nothing_to_hand_over(grpo_run: Callable, tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    assert grpo_run(str(RECIPE), "--dry-run", "--out", run).code == 0
    answer = grpo_run("export", run, "-o", str(tmp_path / "out"))
    assert answer.code == 2
    assert "has no trained model" in answer.err
    assert "it was planned, but never started" in answer.err
    taken = grpo_run("export", run, "-o", run)
    assert taken.code == 2
    assert "already exists" in taken.err
    assert "export never overwrites anything" in taken.err
    for here in ("", ".", str(tmp_path)):
        with contextlib.chdir(tmp_path):
            answer = grpo_run("export", run, "-o", here)
        assert answer.code == 2
        assert "is the current folder" in answer.err
