"""The trained tensors are those of the plan, by their names and by their number of parameters.

With LoRA these are the adapter tensors of the planned modules, `modules_to_save`, trained tokens and biases; otherwise
all. Catches: target modules that match nothing or too much among this release's names, an adapter whose requires_grad
was switched off, and a base model that was left trainable beside it.
Source: peft 0.21.2 tuners/lora, for the names of the tensors.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.wording import listed
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.before_training.compared import Compared, Loaded

ID = "PRF014"
NAME = "trained tensors"
SHOWN_NAMES = 6


def compare(plan: Plan, seen: Loaded) -> Iterator[Compared]:
    """The names on both sides, and the count where the plan has one."""
    yield Compared("trained but not planned", "none", _names(seen.trained - seen.expected))
    yield Compared("planned but not trained", "none", _names(seen.expected - seen.trained))
    if plan.expect.trainable_parameters is not None:
        yield Compared("trainable parameters", plan.expect.trainable_parameters, seen.numbers)


def _names(names: frozenset[str]) -> str:
    return listed(sorted(names), SHOWN_NAMES) or "none"
