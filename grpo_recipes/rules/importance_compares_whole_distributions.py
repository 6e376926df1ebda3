"""Importance ratios compare whole distributions.

With top_p, top_k or min_p vLLM samples only from the likeliest tokens, and reports probabilities among them; a
repetition penalty shifts them. The trainer computes probabilities over all tokens. The ratio of the two is then below
1, by the share of probability that was cut away, and the ratio of a sequence is the product over its tokens. TRL's
correction for vLLM mistakes the difference for policy drift and silently weakens the gradient, most of all for long
completions.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context

ID = "GEN006"
APPLIES_TO = {"trl": ">=0.24"}
WHOLE = {"top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}


def check(context: Context) -> Iterator[Finding]:
    if context.value("GRPOConfig.use_vllm") is not True:
        return
    if context.value("GRPOConfig.vllm_importance_sampling_correction") is not True:
        return
    cut = [name for name, whole in WHOLE.items() if context.value(f"GRPOConfig.{name}") not in (whole, whole or 0)]
    if not cut:
        return
    mode = str(context.value("GRPOConfig.vllm_importance_sampling_mode"))
    amount = "the product over all its tokens" if mode.startswith("sequence_") else "the share that was cut away"
    yield context.finding(
        f"{' and '.join(cut)} weaken{'' if len(cut) > 1 else 's'} the gradient through the importance ratio",
        f"GRPOConfig.{cut[0]}",
        [
            "vLLM reports probabilities among the tokens it sampled from; the trainer computes them over all tokens",
            f"{mode} treats the difference as policy drift: {amount}",
        ],
        fix=", ".join(f"{name}: {'null' if WHOLE[name] is None else WHOLE[name]}" for name in cut)
        + ", or vllm_importance_sampling_correction: false",
        patch=[Patch(("generation", name), WHOLE[name], remove=WHOLE[name] is None) for name in cut],
        severity="warning",
    )
