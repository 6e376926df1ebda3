"""A group whose completions all have the same reward trains nothing.

Its advantages are zero: there is nothing to compare. TRL computes them in float32, where rounding can shift the mean of
equal rewards: eight completions with a reward of 1.0 + 0.2 get advantages of 0.001, and an optimizer that scales its
steps, such as Adam, turns these into full updates. Releases, group sizes and devices round differently, so the same
recipe trains on different noise elsewhere. The shim `equal_rewards` sets these advantages to exactly zero, with every
loss, scaling and aggregation; the KL and entropy terms of a loss still train.

Groups whose rewards differ keep TRL's advantages bit for bit, if the difference exists in float32 and exceeds 1e-8,
below which TRL logs no difference; scale up smaller rewards or weights. `--accept SHM024` leaves TRL unchanged. TRL
0.14 computes advantages inside its loss; there, the shim sets their factors to zero. It can be removed when TRL
compares the rewards of a group with a tolerance relative to their size.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting

ID = "SHM024"
OWNS = ("shims.equal_rewards",)


def decide(context: Context) -> Iterator[Setting]:
    yield rule_setting(OWNS[0], True, "TRL trains equal rewards on float32's rounding errors")
