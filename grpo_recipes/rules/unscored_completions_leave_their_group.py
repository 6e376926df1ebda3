"""A completion that no function scored is left out of its group.

A reward returns None where it does not apply, and a judge that fails gives no score. Since trl 1.6.0, a completion
without any reward has no part in the mean and deviation of its group, and its advantage is 0. Older releases add up
nothing to 0: the completion lowers the mean, and is trained as if its reward were 0. trl 0.15 raises a TypeError for
None. The shim `unscored_completions` computes the advantages of these releases as trl 1.16 does, for generations with a
missing reward; others stay bit for bit the same. `--accept SHM032` leaves TRL unchanged.

trl 0.14 computes advantages inside its loss and cannot take None; there, a run ends when a reward returns it.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting

ID = "SHM032"
APPLIES_TO = {"trl": ">=0.15,<1.6"}
OWNS = ("shims.unscored_completions",)


def decide(context: Context) -> Iterator[Setting]:
    yield rule_setting(OWNS[0], True, "this TRL counts a completion without a reward as one with the reward 0")
