"""The learning rate fits what is trained.

Adam and its relatives change each weight by about the learning rate per step, whatever the gradient, and a language
model's weights are about 0.02. benchmarks/learning_rates.py trains the quickstart, which starts with 0.56 of its
held-out sums right, for 40 steps. With all weights, AdamW ends at 0.72 and Adafactor at 0.94 for a rate of 0.001, and
both at nothing for 0.003 or more. With LoRA of scale 2 (lora_alpha / r) they end at 0.95 and 0.99 for 0.003, at 0.12
and 0.04 for 0.01, and at nothing for 0.03 or more; at scale 0.5 a rate of 0.01 loses nothing, so the product of rate
and scale counts. No number became NaN and no gradient grew, so only the reward shows it. SGD's step is as large as the
gradient, and the rule does not judge it. Above a rate of 1, a single step changes each weight by over fifty times its
size, which is an error; below that, a rate is a warning.

That model has a width of 128, and wider ones tolerate less. Published runs train all weights of language models at 1e-6
to 1e-5, and no configuration that TRL publishes exceeds 5e-5. So at a width of 512 or more, the rule reports a rate of
1e-4 or more, which is usually an adapter's rate, such as 2e-4. TRL's default of 1e-6 is one for all weights. After 40
steps at 1e-6 or 1e-5, the quickstart's adapter has 0.49 of 200 held-out sums right, as before training, and 0.70 at
1e-4. So the rule reports an adapter without a written rate.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import model_config

ID = "TRN007"
RATE, OPTIM = "GRPOConfig.learning_rate", "GRPOConfig.optim"
# The lowest rates that were measured to damage the model; for adapters, rate times scale.
RUIN, RUIN_OF_ADAPTERS = 3e-3, 2e-2
CERTAIN_RUIN = 1.0
WIDE, RUIN_OF_WIDE = 512, 1e-4
# Parts of the names in `optim` whose steps are as large as the rate.
OF_ITS_SIZE = ("adam", "adafactor", "lion")


def check(context: Context) -> Iterator[Finding]:
    rate, optim = context.value(RATE), context.text(OPTIM)
    if not isinstance(rate, int | float) or not any(word in optim for word in OF_ITS_SIZE):
        return
    is_adapter = context.has_section("lora")
    size, ruin = (rate * _scale(context), RUIN_OF_ADAPTERS) if is_adapter else (rate, RUIN)
    trained = "the adapter" if is_adapter else "the model"
    if size >= ruin:
        is_certain = size > CERTAIN_RUIN
        does = "destroys" if is_certain else "is high enough to destroy"
        yield _finding(
            context,
            f"learning rate {rate:g} with {optim} {does} {trained}",
            "each weight moves by about the rate per step, and weights are about 0.02; a small model lost all it knew",
            is_certain,
        )
    elif is_adapter and not context.is_given(RATE):
        yield _finding(
            context,
            f"learning rate {rate:g} is the default for all weights, but this recipe trains an adapter",
            "an adapter hardly learns at this rate",
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


def _finding(context: Context, message: str, because: str, is_certain: bool = False) -> Finding:
    usual = "1e-5 to 1e-3 for an adapter" if context.has_section("lora") else "1e-6 to 1e-5 for all weights"
    why = [because, f"usual rates are {usual}; a model of width 128 learned at up to 2e-3"]
    fix = f"learning_rate: {usual.partition(' for')[0]}"
    return context.finding(message, RATE, why, fix=fix, severity="error" if is_certain else "warning")
