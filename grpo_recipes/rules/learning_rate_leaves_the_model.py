"""The learning rate is one that leaves something of the model.

Adam and its kin move each number by about the learning rate in a step, whatever the gradient, and the weights of a
language model are about 0.02: at 0.1 a step is larger than nearly all of them. Measured with the quickstart's model and
AdamW, 20 steps: with LoRA the reward rose from 0.5 to 0.9 at 0.001, fell to 0.2 at 0.01 and was 0 from 0.03 on; of all
weights it was 0 from 0.01 on. No number was NaN and no gradient was large: nothing but the reward says so. SGD's step
is as large as the gradient, so that nothing is said of it.
"""

from collections.abc import Iterator

from grpo_recipes.finding import Finding
from grpo_recipes.rules.context import Context

ID = "TRN007"
RATE, OPTIM = "GRPOConfig.learning_rate", "GRPOConfig.optim"
TOO_LARGE = 0.1
# Parts of the words of `optim` whose steps are as large as the rate.
OF_ITS_SIZE = ("adam", "lion")


def check(context: Context) -> Iterator[Finding]:
    rate, optim = context.value(RATE), context.text(OPTIM)
    if not isinstance(rate, int | float) or rate < TOO_LARGE or not any(word in optim for word in OF_ITS_SIZE):
        return
    yield context.finding(
        ID,
        f"a step of {optim} at learning rate {rate:g} is larger than most weights",
        RATE,
        because=[
            "each number moves by about the rate, and weights are about 0.02: nothing is left of the model",
            "usual are 1e-6 to 1e-5 for all weights, 1e-5 to 1e-3 for an adapter",
        ],
        fix="learning_rate: 1e-6, or 1e-5 with an adapter",
        severity="warning",
    )
