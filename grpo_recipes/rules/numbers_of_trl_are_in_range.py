"""Numbers under `trl:` are in the range that the computation needs.

GRPOConfig accepts any number. A temperature of 0 in sapo divides 0 by 0, and the gradient becomes nan. Padding to a
multiple of 0 raises ZeroDivisionError at the first batch. An adaptive entropy coefficient whose minimum exceeds its
maximum jumps between them. A reference model whose mixup share of the policy exceeds 1 moves away from the policy.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "GRP004"
# name: lowest value, whether it is excluded, highest value, what to write, and why.
RANGES: dict[str, tuple[float, bool, float, float, str]] = {
    "pad_to_multiple_of": (1, False, float("inf"), 8, "TRL pads sequences to a multiple of this number"),
    "sapo_temperature_pos": (0, True, float("inf"), 1.0, "sapo divides by it, and the gradient becomes nan"),
    "sapo_temperature_neg": (0, True, float("inf"), 1.05, "sapo divides by it, and the gradient becomes nan"),
    "ref_model_mixup_alpha": (0, True, 1, 0.6, "it is the share of the policy that is mixed into the reference model"),
}
PADDING = "pad_to_multiple_of"
LEAST, GREATEST = "GRPOConfig.entropy_coef_min", "GRPOConfig.entropy_coef_max"


def check(context: Context) -> Iterator[Finding]:
    for name, (least, excluded, greatest, better, why) in RANGES.items():
        value = context.value(f"GRPOConfig.{name}")
        if name == PADDING and isinstance(value, str):
            value = _multiple(value)
            if isinstance(value, str):
                yield _no_multiple(context, value)
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        if value < least or value > greatest or (excluded and value == least):
            bounds = f"{'above' if excluded else 'at least'} {least:g}"
            bounds += f" and at most {greatest:g}" if greatest != float("inf") else ""
            yield context.wrong(f"{name} is {value}, but must be {bounds}", f"GRPOConfig.{name}", why, better)
    yield from _entropy_bounds(context)


def _multiple(text: str) -> int | str | None:
    """The number that GRPOConfig reads from a text, None for its words for no padding, otherwise the text."""
    if text == "auto" or text.lower() in ("none", "null"):
        return None
    try:
        return int(text)
    except ValueError:
        return text


def _no_multiple(context: Context, text: str) -> Finding:
    message = f"{PADDING} is {text}, but must be a whole number, auto or none"
    return context.wrong(message, f"GRPOConfig.{PADDING}", "GRPOConfig raises ValueError for any other word", 8)


def _entropy_bounds(context: Context) -> Iterator[Finding]:
    least, greatest = context.value(LEAST), context.value(GREATEST)
    if context.value("GRPOConfig.use_adaptive_entropy") is not True:
        return
    if isinstance(least, int | float) and isinstance(greatest, int | float) and least > greatest:
        message = f"entropy_coef_min {least} exceeds entropy_coef_max {greatest}"
        because = "the coefficient would jump between them"
        yield context.wrong(
            message, LEAST if context.is_given(LEAST) else GREATEST, because, greatest, at=("trl", "entropy_coef_min")
        )
