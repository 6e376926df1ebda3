"""A group whose completions are all worth the same trains nothing.

Its advantages are zero: there is nothing to compare. TRL computes them in float32, where the mean of equal rewards may
be rounded: eight completions worth 1.0 + 0.2 get advantages of 0.001, and an optimizer that scales its steps, such as
Adam, makes full updates of them. How a mean is rounded differs between releases, group sizes and devices, so the same
recipe trains on other noise elsewhere. The shim `equal_rewards` sets these advantages to exactly zero, with every loss,
scaling and aggregation; what the KL or entropy terms of a loss teach stays. Groups whose rewards
differ keep what TRL gives them bit for bit, where float32 has the difference and it is above the 1e-8 below which TRL
logs none: rewards or weights as small as that are to be scaled up. `--accept SHM024` leaves TRL as it is.

TRL 0.14 computes advantages inside of its loss; there the shim sets to zero what they are multiplied with. It goes when
TRL compares the rewards of a group with a tolerance relative to their size.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, decided
from grpo_recipes.settings import Setting

ID = "SHM024"
OWNS = ("shims.equal_rewards",)


def decide(context: Context) -> Iterator[Setting]:
    yield decided(OWNS[0], True, ID, "TRL trains equal rewards by what float32 rounds", context.settings)
