"""The proofs of turns, in the order in which they are shown."""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.planned import calls_tools
from grpo_recipes.worker.proofs.catalog import Prove
from grpo_recipes.worker.proofs.of_turns import (
    tool_replies_are_outside_the_loss,
    tools_are_called,
    turns_are_trained_as_sampled,
)

OF_TURNS: tuple[Prove, ...] = (
    tools_are_called.prove,
    turns_are_trained_as_sampled.prove,
    tool_replies_are_outside_the_loss.prove,
)


def of_turns(plan: Plan) -> tuple[Prove, ...]:
    """The proofs of a run's first step that are about its turns; none where each completion is one."""
    return OF_TURNS if calls_tools(plan) else ()
