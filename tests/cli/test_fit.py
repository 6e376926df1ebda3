"""grpo-run fit: a table for each machine, and a verdict."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

RECIPES = Path(__file__).parents[2] / "recipes"
LORA, ZERO3 = str(RECIPES / "qwen2_lora.yaml"), str(RECIPES / "qwen2_5_7b_zero3.yaml")
TESTED = ("--target", "tested,vllm==0.30.0")


def test_machines_are_compared(grpo_run: Callable) -> None:
    answer = grpo_run("fit", LORA, *TESTED, "--gpus", "1xRTX-4090, 1xA100-80GB")
    assert answer.code == 0, answer.err
    heads = [line for line in answer.out.splitlines() if ": fits" in line]
    assert [line.partition(":")[0] for line in heads] == ["1xRTX-4090", "1xA100-80GB"]
    assert "of 24.0 GiB of each GPU" in heads[0]
    assert "  = assumed: prompts of at most 512 tokens" in answer.out


def test_bytes_for_programs_add_up(grpo_run: Callable) -> None:
    answer = grpo_run("fit", ZERO3, *TESTED, "--gpus", "8xH100-80GB", "--json")
    machine = json.loads(answer.out)["machines"][0]
    assert machine["verdict"] in ("fits", "tight")
    assert list(machine["phases"]) == ["load", "generate", "score", "update", "sync", "save"]
    assert sum(machine["phases"][machine["peak"]["phase"]].values()) == machine["peak"]["bytes"]


@pytest.mark.parametrize(
    ("settings", "gpus", "verdict"),
    [
        pytest.param(
            ("model.model_name_or_path=Qwen/Qwen2.5-7B", "lora=null"), "1xRTX-4090", "does not fit", id="too large"
        ),
        pytest.param(("model.model_name_or_path=google/gemma-2-2b",), "1xA100-80GB", "unknown", id="another family"),
        pytest.param(("model.model_name_or_path=nobody/nothing",), "1xA100-80GB", "unknown", id="no config.json"),
        pytest.param((), "1xNOBODYS-GPU", "unknown", id="no memory"),
    ],
)
def test_what_does_not_fit_or_is_not_known_is_said(
    grpo_run: Callable, settings: tuple[str, ...], gpus: str, verdict: str
) -> None:
    overrides = [word for setting in settings for word in ("--set", setting)]
    answer = grpo_run("fit", LORA, *overrides, *TESTED, "--gpus", gpus)
    assert answer.code == 1
    assert answer.out.startswith(f"{gpus}: {verdict}")


def test_a_refused_recipe_says_why(grpo_run: Callable) -> None:
    answer = grpo_run("fit", ZERO3, *TESTED, "--gpus", "1xA100-40GB")
    assert answer.code == 1
    assert answer.out.startswith("1xA100-40GB: cannot run\n  = because: 8 GPUs are asked for")


@pytest.mark.parametrize("gpus", ["", "0x0x0"])
def test_machines_that_cannot_be_read_are_refused(grpo_run: Callable, gpus: str) -> None:
    assert grpo_run("fit", LORA, *TESTED, "--gpus", gpus).code == 2


def test_a_recipe_that_is_not_there_is_no_answer(grpo_run: Callable) -> None:
    answer = grpo_run("fit", "nowhere.yaml", *TESTED)
    assert (answer.code, answer.out) == (2, "")
    assert "nowhere.yaml does not exist" in answer.err
