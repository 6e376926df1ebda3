"""What a trained model answers is what the recipe's evaluation would see."""

import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from export_runs import Answer, command

pytestmark = pytest.mark.stack


@pytest.fixture
def generate(warm_python: Path) -> Callable[..., Answer]:
    return functools.partial(command, warm_python, "generate")


def _recorded(run: Path, step: int) -> list[dict]:
    return [json.loads(line) for line in (run / "evaluation" / f"step-{step}.jsonl").read_text().splitlines()]


def test_rows_are_answered_as_the_evaluations_before_and_after_the_training_were(
    run_of: Callable[[str], Path], generate: Callable[..., Answer]
) -> None:
    run = run_of("lora")
    done = generate(run, "--rows", 12, "--greedy", "--base", "--json")
    assert done.code == 0, done.out + done.err
    answer = done.json()
    assert len(answer["rows"]) == 12
    for who, step in (("base", 0), ("trained", 4)):
        recorded = _recorded(run, step)
        found = [{**row, **row[who]} for row in answer["rows"]]
        for key in ("prompt", "completion", "rewards", "columns"):
            assert [row[key] for row in found] == [row[key] for row in recorded], (who, key)
    means = json.loads((run / "run.json").read_text())["evaluation"]
    assert answer["means"]["base"]["reward"] == pytest.approx(means["before"]["reward"])
    assert answer["means"]["trained"]["exact_match"] == pytest.approx(means["after"]["rewards"]["exact_match"])


def test_a_prompt_is_answered_without_rewards(run_of: Callable[[str], Path], generate: Callable[..., Answer]) -> None:
    done = generate(run_of("lora"), "17+25=", "--greedy", "--base")
    assert done.code == 0, done.out + done.err
    assert done.out.splitlines()[0] == "17+25="
    assert "trained" in done.out
    assert "base" in done.out
    assert "reward" not in done.out


def test_a_set_that_a_run_does_not_have_is_named_with_the_way_out(
    run_of: Callable[[str], Path], generate: Callable[..., Answer]
) -> None:
    done = generate(run_of("lora"), "--rows", 2, "--held-out", "hard")
    assert (done.code, done.out) == (2, "")
    assert "the run has no held-out set hard" in done.err
    assert "its held-out sets have no names" in done.err and "fix: leave out --held-out" in done.err


def test_a_damaged_model_does_not_answer(
    run_of: Callable[[str], Path], generate: Callable[..., Answer], tmp_path: Path
) -> None:
    run = shutil.copytree(run_of("lora"), tmp_path / "run")
    weights = run / "final" / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    done = generate(run, "--rows", 2)
    assert done.code == 2
    assert "final/adapter_model.safetensors was changed" in done.err
    assert done.out == ""
