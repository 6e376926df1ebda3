"""The learning rate is too high for what is trained.

Adam and its relatives change each weight by about the learning rate per step, whatever the gradient, and a language
model's weights are about 0.02. benchmarks/learning_rates.py trains the quickstart, which starts with 0.56 of its
held-out sums right, for 40 steps. With all weights, AdamW ends at 0.72 and Adafactor at 0.94 for a rate of 0.001, and
both at nothing for 0.003 or more. With LoRA of scale 2 (lora_alpha / r) they end at 0.95 and 0.99 for 0.003, at 0.12
and 0.04 for 0.01, and at nothing for 0.03 or more; at scale 0.5 a rate of 0.01 loses nothing, so the product of rate
and scale counts. No number became NaN and no gradient grew, so only the reward shows it. SGD's step is as large as the
gradient, and the rule does not judge it.

That model has a width of 128, and wider ones tolerate less. Published runs train all weights of language models at 1e-6
to 1e-5, and no configuration that TRL publishes exceeds 5e-5. So at a width of 512 or more, the rule reports a rate of
1e-4 or more, which is usually an adapter's rate, such as 2e-4.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import model_config

ID = "TRN007"
RATE, OPTIM = "GRPOConfig.learning_rate", "GRPOConfig.optim"
# The lowest rates that were measured to damage the model; for adapters, rate times scale.
RUIN, RUIN_OF_ADAPTERS = 3e-3, 2e-2
WIDE, RUIN_OF_WIDE = 512, 1e-4
# Parts of the names in `optim` whose steps are as large as the rate.
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
            f"learning rate {rate:g} with {optim} is high enough to destroy {trained}",
            "each weight moves by about the rate per step, and weights are about 0.02; a small model lost all it knew",
        )
    elif not is_adapter and rate >= RUIN_OF_WIDE and _width(context) >= WIDE:
        yield _finding(
            context,
            f"learning rate {rate:g} is typical for LoRA, but this recipe trains all weights",
            f"each weight moves by about the rate per step, and the model is {_width(context)} wide",
        )


def _scale(context: Context) -> float:
    """The factor that PEFT multiplies the adapter's output by."""
    rank, alpha = context.value("LoraConfig.r"), context.value("LoraConfig.lora_alpha")
    if not isinstance(rank, int) or not isinstance(alpha, int | float) or rank < 1:
        return 1.0
    return float(alpha / (rank**0.5 if context.value("LoraConfig.use_rslora") is True else rank))


def _width(context: Context) -> int:
    """The width of the model, 0 if unknown."""
    width = (model_config(context) or {}).get("hidden_size")
    return width if isinstance(width, int) else 0


def _finding(context: Context, said: str, because: str) -> Finding:
    why = [because, "usual rates are 1e-6 to 1e-5 for all weights, 1e-5 to 1e-3 for an adapter"]
    return context.finding(said, RATE, why, fix="learning_rate: 1e-6, or 1e-5 with an adapter", severity="warning")
