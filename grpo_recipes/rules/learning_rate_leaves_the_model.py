"""The learning rate is one that leaves something of the model.

Adam and its kin move each number by about the learning rate in a step, whatever the gradient, and the weights of a
language model are about 0.02. benchmarks/learning_rates.py trains the quickstart for 40 steps, which begins with 0.56
of its held-out sums right. Of all weights AdamW ends with 0.72 and Adafactor with 0.94 at a rate of 0.001, and both
with nothing from 0.003 on; with LoRA of scale 2 (lora_alpha / r) with 0.95 and 0.99 at 0.003, with 0.12 and 0.04 at
0.01 and with nothing from 0.03 on, while at 0.01 and scale 0.5 nothing is lost: the rate times the scale counts. No
number was NaN and no gradient was large: nothing but the reward says so. SGD's step is as large as the gradient, so
that nothing is said of it.

That model has a width of 128, and a wider one bears less. Of all weights language models are trained at 1e-6 to 1e-5;
no configuration that TRL publishes is above 5e-5, so that from a width of 512 on 1e-4 and more are warned of, as 2e-4,
which is usual for adapters.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import model_config

ID = "TRN007"
RATE, OPTIM = "GRPOConfig.learning_rate", "GRPOConfig.optim"
# The least rates that were measured to leave less than there was; of adapters times their scale.
RUIN, RUIN_OF_ADAPTERS = 3e-3, 2e-2
WIDE, RUIN_OF_WIDE = 512, 1e-4
# Parts of the words of `optim` whose steps are as large as the rate.
OF_ITS_SIZE = ("adam", "adafactor", "lion")


def check(context: Context) -> Iterator[Finding]:
    rate, optim = context.value(RATE), context.text(OPTIM)
    if not isinstance(rate, int | float) or not any(word in optim for word in OF_ITS_SIZE):
        return
    is_adapter = context.has_section("lora")
    if rate * _scale(context) >= RUIN_OF_ADAPTERS if is_adapter else rate >= RUIN:
        trained = "the adapter" if is_adapter else "the model"
        yield _finding(
            context,
            f"a step of {optim} at learning rate {rate:g} takes too much of {trained}",
            "each number moves by about the rate, and weights are about 0.02: a small model lost all that it knew",
        )
    elif not is_adapter and rate >= RUIN_OF_WIDE and _width(context) >= WIDE:
        yield _finding(
            context,
            f"learning rate {rate:g} is one of adapters, and all weights are trained here",
            f"each number moves by about the rate in a step, and the model is {_width(context)} wide",
        )


def _scale(context: Context) -> float:
    """What PEFT multiplies the adapter's part with."""
    rank, alpha = context.value("LoraConfig.r"), context.value("LoraConfig.lora_alpha")
    if not isinstance(rank, int) or not isinstance(alpha, int | float) or rank < 1:
        return 1.0
    return float(alpha / (rank**0.5 if context.value("LoraConfig.use_rslora") is True else rank))


def _width(context: Context) -> int:
    """The width of the model, 0 when it is not known."""
    width = (model_config(context) or {}).get("hidden_size")
    return width if isinstance(width, int) else 0


def _finding(context: Context, said: str, because: str) -> Finding:
    return context.finding(
        ID,
        said,
        RATE,
        because=[because, "usual are 1e-6 to 1e-5 for all weights, 1e-5 to 1e-3 for an adapter"],
        fix="learning_rate: 1e-6, or 1e-5 with an adapter",
        severity="warning",
    )
