"""The table of losses has every loss type of the newest TRL."""

from grpo_recipes.facts.facts import facts_for
from grpo_recipes.rules._shared.losses import LOSSES
from grpo_recipes.stack.target import parse_target


def test_each_loss_type_of_the_newest_trl_is_in_the_table() -> None:
    stack, _ = parse_target("tested,gpus=0")
    assert stack is not None
    fields = facts_for(stack).fields("GRPOConfig")
    assert fields is not None
    assert set(fields["loss_type"].allowed or ()) == set(LOSSES)
