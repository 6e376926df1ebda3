"""TOL011 and TOL012: how TRL calls a rollout, and what it reads of it."""

import pytest
from environment_sources import LOOK, ROLLOUT
from library import Answer, Library

pytestmark = pytest.mark.stack


def _trained(library: Library, rollout: str, **more: object) -> Answer:
    return library.call("in_tools.with_environment", environment="", rollout=rollout, **more)


def test_what_is_not_the_policys_is_not_counted(library: Library) -> None:
    answer = _trained(library, ROLLOUT)
    assert answer.raised == "", answer.text
    assert answer.result["logs"][0]["completions/mean_length"] == 1.0


@pytest.mark.parametrize(
    ("signature", "raised", "says"),
    [
        pytest.param("def play(prompts):", "TypeError", "takes 1 positional argument but 2 were given", id="one"),
        pytest.param("def play(prompts, trainer, tokenizer):", "TypeError", "'tokenizer'", id="three"),
        pytest.param("async def play(prompts, trainer):", "AttributeError", "coroutine", id="asynchronous"),
    ],
)
def test_another_signature_ends_the_training(library: Library, signature: str, raised: str, says: str) -> None:
    answer = _trained(library, ROLLOUT.replace("def play(prompts, trainer):", signature))
    assert (answer.stage, answer.raised) == ("train", raised)
    assert says in answer.text


def test_with_tools_its_mask_is_not_read(library: Library) -> None:
    answer = _trained(library, ROLLOUT, tools=LOOK, tool_names=["look"])
    assert answer.raised == "", answer.text
    assert answer.result["logs"][0]["completions/mean_length"] == 3.0, "all three tokens are trained on"
