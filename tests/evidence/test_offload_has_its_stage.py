"""DSP002: what DeepSpeed and accelerate make of offloading where it cannot be."""

from pathlib import Path
from typing import Any

import pytest
from deepspeed_answers import answers, step
from library import Library

pytestmark = pytest.mark.stack

KEEP: dict[str, Any] = {"zero_force_ds_cpu_optimizer": False}
NVME, CPU = {"device": "nvme"}, {"device": "cpu"}
Answers = dict[str, dict[str, Any]]


def _mapped(name: str, **options: Any) -> dict[str, Any]:
    return {"call": "mapped_optimizer", "arguments": {"name": name, "options": {"lr": 0.1, **options}}}


CASES = {
    "nothing": step(zero_optimization={"stage": 2}),
    "parameters, stage 2": step(zero_optimization={"stage": 2, "offload_param": NVME}),
    "parameters, stage 3": step(zero_optimization={"stage": 3, "offload_param": NVME}),
    "optimizer, stage 2": step(**KEEP, zero_optimization={"stage": 2, "offload_optimizer": NVME}),
    "optimizer, stage 3": step(**KEEP, zero_optimization={"stage": 3, "offload_optimizer": NVME}),
    "kept": step(**KEEP, zero_optimization={"stage": 2, "offload_optimizer": CPU}),
    "SGD": _mapped("SGD", momentum=0.9),
    "AdamW": _mapped("AdamW", betas=[0.5, 0.6], eps=0.1, weight_decay=0.3),
}


@pytest.fixture(scope="module")
def found(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What DeepSpeed makes of all cases of this file."""
    return answers(CASES, library, tmp_path_factory.mktemp("offload"))


def test_the_recipes_own_optimizer_steps_as_without_offload(found: Answers) -> None:
    assert found["kept"] == found["nothing"]
    assert found["nothing"]["raised"] == ""


def test_stage_2_ignores_where_parameters_are_to_be(found: Answers) -> None:
    # nvme without a path: whoever read the key would fail, as stage 3 does.
    assert found["parameters, stage 2"] == found["nothing"]


def test_stage_2_keeps_optimizer_states_in_memory_though_nvme_was_said(found: Answers) -> None:
    assert found["optimizer, stage 2"] == found["nothing"]


def test_nvme_without_a_path_fails_under_stage_3(found: Answers) -> None:
    assert (found["parameters, stage 3"]["raised"], found["optimizer, stage 3"]["raised"]) == (
        "AssertionError",
        "TypeError",
    )
    assert '"nvme_path" in DeepSpeed Config cannot be None' in found["parameters, stage 3"]["text"]


def test_another_optimizer_becomes_adam_in_silence(found: Answers) -> None:
    assert found["SGD"]["result"]["class"] == "DeepSpeedCPUAdam"
    assert "momentum" not in found["SGD"]["result"]["options"]


def test_betas_and_epsilon_are_lost(found: Answers) -> None:
    assert found["AdamW"]["result"]["options"] == {"lr": 0.1, "weight_decay": 0.3, "adamw_mode": True}


def test_no_case_compiles(library: Library, tmp_path: Path) -> None:
    answers({"kept": CASES["kept"]}, library, tmp_path)
    assert not (tmp_path / "extensions").exists()
