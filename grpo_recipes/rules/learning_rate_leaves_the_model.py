"""The learning rate fits what is trained.

Adam and its relatives change each weight by about the learning rate per step, whatever the gradient, and a language
model's weights are about 0.02. benchmarks/learning_rates.py trains the quickstart, which starts with 0.56 of its
held-out sums right, for 40 steps. With all weights, AdamW ends at 0.72 and Adafactor at 0.94 for a rate of 0.001, and
both at nothing for 0.003 or more. With LoRA of rank 16 and lora_alpha 32 they end at 0.95 and 0.99 for 0.003, at 0.12
and 0.04 for 0.01, and at nothing for 0.03 or more. Adam changes all r columns of B by the rate, so an adapter's output
changes with r times the scale, which is lora_alpha, or lora_alpha times the root of r with use_rslora: at lora_alpha 32
a rate of 0.01 ruins ranks 1, 16 and 64, at lora_alpha 8 it loses nothing, and rank 1 ends at 0.90 for 0.002. No number
became NaN and no gradient grew, so only the reward shows it. SGD's step is as large as the gradient, and the rule does
not judge it. At fifty times a ruinous rate the finding is an error; below that, it is a warning.

That model has a width of 128, and wider ones tolerate less. Published runs train all weights of language models at 1e-6
to 1e-5, and no configuration that TRL publishes exceeds 5e-5. So at a width of 512 or more, the rule reports a rate of
1e-4 or more, which is usually an adapter's rate, such as 2e-4. TRL's default of 1e-6 is one for all weights. After 40
steps at 1e-6 or 1e-5, the quickstart's adapter has 0.49 of 200 held-out sums right, as before training, and 0.70 at
1e-4. So the rule reports an adapter without a written rate.

The steps of a warm start bear three times as much: 40 of them leave the quickstart 0.91 of its sums with all weights at
0.003 and 0.02 at 0.01, and with LoRA 0.99 at 0.01 and nothing at 0.03. They have no bound for wide models: the
supervised recipes of SmolLM2 train all weights at 3e-4 (1.7B) and 1e-3 (360M).
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import model_config

ID = "TRN007"
RATE, WARM, OPTIM = "GRPOConfig.learning_rate", "warm_start.learning_rate", "GRPOConfig.optim"
# The lowest rates that were measured to ruin the model; for adapters, rate times scale times rank.
RUIN, RUIN_OF_ADAPTERS = 3e-3, 0.32
SUPERVISED_BEARS = 3
CERTAIN_RUIN, CERTAIN_RUIN_OF_ADAPTERS = 1.0, 16.0
WIDE, RUIN_OF_WIDE = 512, 1e-4
# Parts of the names in `optim` whose steps are as large as the rate.
OF_ITS_SIZE = ("adam", "adafactor", "lion")


def check(context: Context) -> Iterator[Finding]:
    yield from _of_rate(context, RATE, "learning rate")
    if context.has_section("warm_start"):
        yield from _of_rate(context, WARM, "the warm start's learning rate")


def _of_rate(context: Context, key: str, name: str) -> Iterator[Finding]:
    rate, optim = context.value(key), context.text(OPTIM)
    if not isinstance(rate, int | float) or not any(word in optim for word in OF_ITS_SIZE):
        return
    is_adapter, bears = context.has_section("lora"), SUPERVISED_BEARS if key == WARM else 1
    if is_adapter:
        factor, product = _factor(context)
        size, ruin, certain, trained = rate * factor, RUIN_OF_ADAPTERS * bears, CERTAIN_RUIN_OF_ADAPTERS, "the adapter"
        why = f"rate x {product} is {size:.2g}, and a model of width 128 lost all that it knew from {ruin:.2g} on"
    else:
        size, ruin, certain, trained = rate, RUIN * bears, CERTAIN_RUIN, "the model"
        why = (
            f"each weight, of about 0.02, moves by the rate per step; a model of width 128 was lost from {ruin:.2g} on"
        )
    if size >= ruin:
        does = "destroys" if size > certain else "is high enough to destroy"
        yield _finding(context, key, f"{name} {rate:g} with {optim} {does} {trained}", why, size > certain)
    elif key == WARM:
        return
    elif is_adapter and not context.is_given(RATE):
        yield _finding(
            context,
            key,
            f"learning rate {rate:g} is the default for all weights, but this recipe trains an adapter",
            "an adapter hardly learns at this rate",
        )
    elif not is_adapter and rate >= RUIN_OF_WIDE and _width(context) >= WIDE:
        yield _finding(
            context,
            key,
            f"learning rate {rate:g} is typical for LoRA, but this recipe trains all weights",
            f"each weight moves by about the rate per step, and the model is {_width(context)} wide",
        )


def _factor(context: Context) -> tuple[float, str]:
    """What the adapter's output changes by with the rate: its rank times PEFT's scale; and how it is computed."""
    rank, alpha = context.value("LoraConfig.r"), context.value("LoraConfig.lora_alpha")
    if not isinstance(rank, int) or not isinstance(alpha, int | float) or rank < 1:
        return 1.0, "1"
    if context.value("LoraConfig.use_rslora") is True:
        return alpha * rank**0.5, f"lora_alpha {alpha:g} x the root of r {rank}"
    return float(alpha), f"lora_alpha {alpha:g}"


def _width(context: Context) -> int:
    """The width of the model, 0 if unknown."""
    width = (model_config(context) or {}).get("hidden_size")
    return width if isinstance(width, int) else 0


def _finding(context: Context, key: str, message: str, because: str, is_certain: bool = False) -> Finding:
    if context.has_section("lora"):
        usual = "1e-5 to 1e-3 for an adapter"
    else:
        usual = "1e-5 to 1e-3 for supervised steps" if key == WARM else "1e-6 to 1e-5 for all weights"
    fix = f"learning_rate: {usual.partition(' for')[0]}"
    return context.finding(
        message, key, [because, f"usual rates are {usual}"], fix=fix, severity="error" if is_certain else "warning"
    )
