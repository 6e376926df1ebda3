"""What vLLM is told: with the shim `vllm_prompts` (SHM021) the prompts that are scored, before trl 0.19; and weights.

vLLM itself is not there: its engine and TRL's client of a server are replaced by ones that note what they are given.
"""

from typing import Any

import pytest
from environments import STACKS
from laboratory import Laboratory, Outcome

pytestmark = pytest.mark.stacks

PROMPTS = ["2+2=", "12345+6789=", "0123456789+0123456789="]
LAST_6 = sorted(["+6789=", "2+2=", "56789="])
BEFORE_0_19 = [stack for stack in STACKS if stack.split(".")[:2] < ["0", "19"]]
WITH_A_SERVER = [stack for stack in BEFORE_0_19 if stack >= "0.16"]


def step(laboratory: Laboratory, stack: str, **changes: Any) -> Outcome:
    """One step with vLLM where the release runs it."""
    given = {"prompts": PROMPTS, "length": 6, "shim": True, **changes}
    return laboratory.run(stack, "vllm_prompt_experiments.observe", **given)


@pytest.mark.parametrize("stack", BEFORE_0_19)
def test_prompts_that_are_short_enough_are_left_alone(stack: str, laboratory: Laboratory) -> None:
    outcome = step(laboratory, stack, length=22)
    assert outcome.told.raised == "", outcome.output[-4000:]
    assert outcome.result["asked"] == sorted(PROMPTS)


@pytest.mark.parametrize("shim", [False, True], ids=["as released", "with the shim"])
@pytest.mark.parametrize("stack", BEFORE_0_19)
def test_vllm_gets_the_cut_prompts_with_the_shim_alone(stack: str, shim: bool, laboratory: Laboratory) -> None:
    outcome = step(laboratory, stack, shim=shim)
    assert outcome.told.raised == "", outcome.output[-4000:]
    assert outcome.result["asked"] == (LAST_6 if shim else sorted(PROMPTS))
    assert outcome.result["scored"] in (LAST_6, [])  # [] for trl 0.14, which generates inside of its loss


@pytest.mark.parametrize("stack", WITH_A_SERVER)
def test_a_run_stops_at_a_cut_prompt_of_which_the_server_would_make_other_tokens(
    stack: str, laboratory: Laboratory
) -> None:
    outcome = step(laboratory, stack, begins=True)
    assert outcome.told.raised == "Refused", outcome.output[-4000:]
    assert "a prompt cannot be cut to its last 6 tokens for the vLLM server" in outcome.told.text
    assert "7 tokens that begin with ['<|im_start|>'" in outcome.told.text


@pytest.mark.parametrize("stack", [stack for stack in BEFORE_0_19 if stack < "0.16"])
def test_an_engine_gets_the_tokens_whatever_a_text_would_begin_with(stack: str, laboratory: Laboratory) -> None:
    outcome = step(laboratory, stack, begins=True)
    assert outcome.told.raised == "", outcome.output[-4000:]
    assert outcome.result["asked"] == LAST_6


@pytest.mark.parametrize(("stack", "is_vllms"), [("0.23.1/4.57.6", False), ("0.26.2/4.57.6", True)])
def test_before_trl_0_26_vllm_is_told_pefts_names_of_what_fsdp2_shards(
    stack: str, is_vllms: bool, laboratory: Laboratory
) -> None:
    outcome = laboratory.run(stack, "vllm_prompt_experiments.names_handed_over")
    assert outcome.told.raised == "", outcome.output[-4000:]
    assert any(name.startswith("model.layers.0.") for name in outcome.result) == is_vllms
    assert any(name.startswith("base_model.") or "lora_" in name for name in outcome.result) != is_vllms
