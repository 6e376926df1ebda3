"""DSP004: what DeepSpeed reads under each stage, and what it refuses there."""

from typing import Any

import pytest
from deepspeed_answers import answers, step
from library import Library

from grpo_recipes.facts.deepspeed_keys import deepspeed_keys
from grpo_recipes.stack.stack import installed_packages

pytestmark = pytest.mark.stack

ZERO2, ZERO3 = {"stage": 2}, {"stage": 3}
HALF = {"offload_optimizer": {"device": "cpu", "ratio": 0.5}}
Answers = dict[str, dict[str, Any]]


def _read(stage: int) -> dict[str, Any]:
    return {"call": "read_in_a_step", "arguments": {"config": {"zero_optimization": {"stage": stage}}}}


@pytest.fixture(scope="module")
def found(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What DeepSpeed makes of all cases of this file."""
    cases = {
        **{f"read {stage}": _read(stage) for stage in (1, 2, 3)},
        "plain": step(zero_optimization=ZERO3),
        "told how": step(zero_optimization={**ZERO3, "offload_param": {"pin_memory": True}}),
        "no norm, stage 3": step(zero_optimization={**ZERO3, "compute_grad_norm": False}),
        "no norm, clipping": step(zero_optimization={**ZERO2, "compute_grad_norm": False}, gradient_clipping=1.0),
        "no norm": step(zero_optimization={**ZERO2, "compute_grad_norm": False}, gradient_clipping=0.0),
        "a part": step(zero_force_ds_cpu_optimizer=False, zero_optimization={**ZERO2, **HALF}),
        "states": step(zero_optimization=ZERO2, bf16={"enabled": True, "bf16_optimizer_states": True}),
    }
    return answers(cases, library, tmp_path_factory.mktemp("stages"))


def test_the_table_of_stages_is_what_is_read_in_a_step(found: Answers) -> None:
    known = deepspeed_keys()
    if installed_packages().get("deepspeed") != known.release:
        pytest.skip(f"the table is of deepspeed {known.release}")
    read = {f"zero{stage}": set(found[f"read {stage}"]["result"]) for stage in (1, 2, 3)}
    assert read["zero1"] == read["zero2"]
    for name, strategies in known.of_stages.items():
        field = name.removeprefix("stage3_")
        assert {strategy for strategy in read if field in read[strategy]} == set(strategies), name
    sections = {"offload_param"}  # DSP002 has it
    alone = (read["zero2"] ^ read["zero3"]) - sections
    assert alone <= set(known.of_stages)


def test_an_offload_without_a_device_is_none(found: Answers) -> None:
    assert found["told how"] == found["plain"]
    assert found["plain"]["raised"] == ""


@pytest.mark.parametrize(
    ("case", "raised", "text"),
    [
        ("no norm, stage 3", "ValidationError", "supported only with ZeRO Stage 1 or 2"),
        ("no norm, clipping", "ValueError", "requires gradient_clipping=0"),
        ("no norm", "", ""),
        ("a part", "ValidationError", "Partial offloading only supported for ZeRO Stage 3"),
        ("states", "AssertionError", "requires bf16_master_weights_and_grads"),
    ],
)
def test_what_a_stage_does_not_do_is_refused_when_training_starts(
    case: str, raised: str, text: str, found: Answers
) -> None:
    assert found[case]["raised"] == raised
    assert text in found[case]["text"]
