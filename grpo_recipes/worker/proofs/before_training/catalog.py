"""The proofs before the first step, in the order in which they are shown."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.before_training import (
    arguments_are_planned,
    model_is_on_its_device,
    trained_tensors_are_planned,
    vllm_computes_as_planned,
    vllm_knows_the_tokens,
    weights_are_loaded_as_planned,
    zero_stage_is_planned,
)
from grpo_recipes.worker.proofs.before_training.compared import Compared, Comparison, Loaded

PROOFS = (
    zero_stage_is_planned,
    arguments_are_planned,
    trained_tensors_are_planned,
    weights_are_loaded_as_planned,
    model_is_on_its_device,
    vllm_computes_as_planned,
    vllm_knows_the_tokens,
)


def compared(plan: Plan, everyone: Sequence[Loaded]) -> list[Comparison]:
    """All values of the first process, and of the others what differs. everyone: the processes, at least one."""
    return [Comparison(proof.ID, proof.NAME, tuple(_on_all(proof.compare, plan, everyone))) for proof in PROOFS]


def _on_all(
    compare: Callable[[Plan, Loaded], Iterator[Compared]], plan: Plan, everyone: Sequence[Loaded]
) -> Iterator[Compared]:
    first, *others = everyone
    own = list(compare(plan, first))
    yield from own
    said = {repr(value) for value in own}
    for other in others:
        for value in compare(plan, other):
            if not value.ok and repr(value) not in said:
                said.add(repr(value))
                yield replace(value, name=f"{value.name} (rank {other.rank})")
