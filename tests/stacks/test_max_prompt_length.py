"""The shim `max_prompt_length` (SHM009) cuts prompts to the same tokens as trl up to 0.23 does by its own field."""

from typing import Any

import pytest
from environments import STACKS
from laboratory import Laboratory

pytestmark = pytest.mark.stacks

PROMPTS = ["2+2=", "12345+6789=", "0123456789+0123456789="]
LAST_6 = {False: ["+6789=", "2+2=", "56789="], True: [f"{end}<|im_end|><|im_start|>" for end in ("2+2=", "789=")]}
LONGER = {False: 2, True: 3}
WITH_THE_FIELD = [stack for stack in STACKS if stack.split(".")[:2] < ["0", "26"]]
WITHOUT = [stack for stack in STACKS if stack not in WITH_THE_FIELD]
IS_CHAT = pytest.mark.parametrize("is_chat", [False, True], ids=["text", "chat"])


def prompts(laboratory: Laboratory, stack: str, **changes: Any) -> dict[str, Any]:
    """Those of one step."""
    given = {"prompts": PROMPTS, "length": 6, "by_shim": stack in WITHOUT, "is_chat": False, **changes}
    outcome = laboratory.run(stack, "prompt_length_experiments.observe", **given)
    assert outcome.told.raised == "", outcome.output[-4000:]
    result: dict[str, Any] = outcome.result | {"output": outcome.output}
    return result


@pytest.mark.parametrize("stack", WITHOUT)
def test_prompts_that_are_short_enough_are_left_alone(stack: str, laboratory: Laboratory) -> None:
    found = prompts(laboratory, stack, length=22)
    assert found["generated"] == found["scored"] == sorted(PROMPTS)
    assert found["ratio"] == 0.0


@IS_CHAT
@pytest.mark.parametrize("stack", STACKS)
def test_every_release_keeps_the_same_last_tokens(stack: str, is_chat: bool, laboratory: Laboratory) -> None:
    found = prompts(laboratory, stack, is_chat=is_chat)
    assert found["generated"] == sorted(LAST_6[is_chat])
    assert found["scored"] in (found["generated"], [])  # [] for trl 0.14, which generates inside of its loss
    if stack in WITHOUT:
        assert found["ratio"] == LONGER[is_chat] / 3
        assert f"{LONGER[is_chat]} of 3 prompts were cut to their last 6 tokens" in found["output"]


@pytest.mark.parametrize("stack", ["0.26.2/4.57.6"])
def test_trl_0_26_takes_the_field_and_cuts_nothing(stack: str, laboratory: Laboratory) -> None:
    assert prompts(laboratory, stack, by_shim=False)["generated"] == sorted(PROMPTS)
