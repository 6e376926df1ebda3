"""What would make the steps of a run faster, by where their time goes."""

from collections.abc import Mapping

from grpo_recipes.contract.metric_names import OF_REWARDS
from grpo_recipes.contract.plan import Plan

_MOST_GENERATION, _MOST_REWARDS = 0.5, 0.2
_SHORT_S = 1.0
"""Steps that take less are not worth a change."""


def advise(plan: Plan, step_s: float, shares: Mapping[str, float]) -> list[str]:
    """Returns a sentence for each part that takes more of a step than it has to. shares: by metric_names.PHASE_SECONDS.

    The times with vLLM are those of the stages lora and vllm of benchmarks/gpu.md.
    """
    advice: list[str] = []
    if step_s < _SHORT_S:
        return advice
    if shares.get("generate", 0.0) > _MOST_GENERATION and plan.vllm is None and plan.world.device == "cuda":
        release = plan.stack.get("vllm")
        needs = f"vllm {release} is installed" if release else "it needs vllm, which is not installed"
        advice.append(
            f"generation takes {shares['generate']:.0%} of a step. generation.use_vllm: true lets vLLM generate"
            f" ({needs}; see docs/vllm.md): on an H200, a step of LoRA on 0.5B took 15.4 s without it and 3.5 s with it"
        )
    if shares.get(OF_REWARDS, 0.0) > _MOST_REWARDS:
        advice.append(
            f"rewards take {shares[OF_REWARDS]:.0%} of a step. Each gets all completions of a generation in one call,"
            " so it can score them in several threads or processes"
        )
    return advice
