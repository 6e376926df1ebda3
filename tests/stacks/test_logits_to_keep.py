"""The shim `logits_to_keep` (SHM007): whatever TRL and the class call it, the loss gets (B, C + 1, V) and is right.

What TRL alone makes of these classes is in raw_logits.py. GPT2 had neither keyword before transformers 4.53, Custom is
a class of the experiment's own that takes no keyword but those it names.
"""

from typing import Any

import pytest
from environments import STACKS
from laboratory import Laboratory

pytestmark = pytest.mark.stacks

VOCABULARY = 41
# trl 0.14 scores without an attention mask, so that one prompt at a time is all it gets right (BAT rules).
ONE = ["2+2="]


def step(laboratory: Laboratory, stack: str, model: str, **changes: Any) -> dict[str, Any]:
    """One training step of a model with the shim."""
    outcome = laboratory.run(stack, "logits_experiments.observe", model=model, prompts=ONE, **changes)
    assert outcome.told.raised == "", outcome.output[-4000:]
    result: dict[str, Any] = outcome.result
    return result


def check(found: dict[str, Any]) -> None:
    """The loss got the logits of the completion alone, or a fused head none; log-probabilities are right."""
    rows = [8, found["completion"] + 1, VOCABULARY]
    assert found["shape"] in (rows, None)
    assert found["rows"] == ([] if found["shape"] is None else [found["completion"] + 1])
    assert found["error"] < 1e-4
    assert found["grad_norm"] > 0
    assert len(set(found["forwards"])) == 1


@pytest.mark.parametrize("model", ["Qwen2", "GPT2", "Custom"])
@pytest.mark.parametrize("stack", STACKS)
def test_the_loss_gets_the_logits_of_the_completion_alone(stack: str, model: str, laboratory: Laboratory) -> None:
    found = step(laboratory, stack, model)
    check(found)
    assert (found["shape"] is None) == (stack == STACKS[-1])
    assert (found["said"] == [""]) == (found["shape"] is None or _knows_the_word(stack, model))


@pytest.mark.parametrize("model", ["Product", "Transposed"])
@pytest.mark.parametrize("stack", ["0.14.0/4.48.3", "0.19.1/4.52.4"])
def test_all_logits_are_cut_if_the_output_layer_cannot_be_narrowed(
    stack: str, model: str, laboratory: Laboratory
) -> None:
    # Fewer positions than rows, so that a cut of the wrong dimension shows.
    found, custom = (step(laboratory, stack, each, max_completion_length=3) for each in (model, "Custom"))
    assert found["error"] < 1e-4
    assert found["grad_norm"] == pytest.approx(custom["grad_norm"], rel=1e-5)


def _knows_the_word(stack: str, model: str) -> bool:
    """Whether the class knows the keyword of this TRL by itself."""
    trl, transformers = stack.split("/")
    if model == "Qwen2":
        return transformers != "4.48.3" or trl == "0.14.0"
    return model == "GPT2" and not transformers.startswith(("4.4", "4.52"))


@pytest.mark.parametrize("model", ["GPT2", "Custom"])
@pytest.mark.parametrize("stack", STACKS)
def test_so_it_does_with_an_adapter_and_a_reference(stack: str, model: str, laboratory: Laboratory) -> None:
    found = step(laboratory, stack, model, lora=True, beta=0.04)
    check(found)
    assert found["kl"] == pytest.approx(0.0, abs=1e-6)  # the reference is the adapter's own base


@pytest.mark.parametrize("stack", STACKS)
def test_a_reference_model_of_its_own_gets_them_too(stack: str, laboratory: Laboratory) -> None:
    found = step(laboratory, stack, "GPT2", beta=0.04)
    check(found)
    assert found["kl"] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("stack", ["0.15.2/4.48.3", "0.23.1/4.57.6", "1.9.0/5.23.0"])
def test_the_gradient_is_that_of_all_logits(stack: str, laboratory: Laboratory) -> None:
    model = "GPT2" if stack.startswith("0.15.") else "Custom"
    alone = step(laboratory, stack, model, shim=False)
    assert alone["shape"][1] == alone["sequence"], "the defect is gone"
    assert step(laboratory, stack, model)["grad_norm"] == pytest.approx(alone["grad_norm"], rel=1e-5)
