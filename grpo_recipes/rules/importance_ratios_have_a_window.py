"""The window of importance ratios is not empty, and contains the ratio 1.

vLLM's probabilities differ a little from the trainer's. TRL weights each token or sequence by their ratio, clipped to
vllm_importance_sampling_clip_min and clip_max. GRPOConfig raises ValueError for an empty window, and for a truncating
mode without bounds. It accepts a window without the ratio 1: a masking mode then drops every sample of the policy
itself, and the run learns nothing; a clip_max of 0 or less reverses the gradient. Loss `vespo` takes only token modes;
otherwise GRPOTrainer raises ValueError, after loading the model.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.rules._shared.context import Context

ID = "GEN005"
APPLIES_TO = {"trl": ">=0.23"}
NAME = "vllm_importance_sampling_"


def check(context: Context) -> Iterator[Finding]:
    least, most, mode = (_value(context, name) for name in ("clip_min", "clip_max", "mode"))
    corrects = _value(context, "correction") is True
    by_vllm = corrects and context.value("GRPOConfig.use_vllm") is True
    if isinstance(least, int | float) and isinstance(most, int | float) and least >= most:
        why = "GRPOConfig raises ValueError for an empty window"
        yield _finding(context, "clip_min", f"clip_min {least:g} is not below clip_max {most:g}", why, None)
    elif corrects and str(mode).endswith("_truncate") and least is None and most is None:
        why = "GRPOConfig raises ValueError for a truncating mode without bounds"
        yield _finding(context, "clip_max", f"mode {mode} has neither clip_min nor clip_max", why, 3.0)
    elif by_vllm:
        yield from _without_one(context, least, most, str(mode))
    if by_vllm and context.value("GRPOConfig.loss_type") == "vespo" and str(mode).startswith("sequence_"):
        why = "GRPOTrainer raises ValueError after loading the model"
        better = f"token_{str(mode).partition('_')[2]}"
        yield _finding(context, "mode", f"loss vespo needs a mode per token, not {mode}", why, better)


def _without_one(context: Context, least: object, most: object, mode: str) -> Iterator[Finding]:
    masks = mode.endswith("_mask")
    if isinstance(most, int | float) and (most <= 0 or (masks and most < 1)):
        why = "ratios are above 0, so all are clipped to a number that reverses the gradient"
        if masks:
            why = "a sample of the policy itself has the ratio 1 and is dropped, so the run silently learns nothing"
        yield _finding(
            context, "clip_max", f"clip_max {most:g} is below {'1' if masks and most > 0 else 'every ratio'}", why, 3.0
        )
    elif masks and isinstance(least, int | float) and least > 1:
        why = "a sample of the policy itself has the ratio 1 and is dropped, so the run silently learns nothing"
        yield _finding(context, "clip_min", f"clip_min {least:g} is above 1", why, None)


def _value(context: Context, name: str) -> object:
    """The value, or GRPOConfig's equal default if the format sets none."""
    key = f"GRPOConfig.{NAME}{name}"
    return context.value(key) if key in context.settings else classified_fields()[NAME + name].value


def _finding(context: Context, name: str, what: str, why: str, better: object) -> Finding:
    message = f"vllm_importance_sampling: {what}"
    return context.wrong(message, f"GRPOConfig.{NAME}{name}", why, better)
