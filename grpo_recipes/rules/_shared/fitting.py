"""Whether a recipe would fit into its GPUs with other values, for rules that choose them."""

from collections.abc import Collection, Mapping

from grpo_recipes.rules._shared.context import Context, NotJudged
from grpo_recipes.rules._shared.used_gpus import gpu_bytes

FILLED = 0.85
"""The share of a GPU that `auto` fills, by an estimate that was not yet compared with a GPU."""
IN_AN_UPDATE = ("score", "update")
DECIDED = (
    "distributed.strategy",
    "world.device",
    "world.num_processes",
    "GRPOConfig.gradient_accumulation_steps",
    "GRPOConfig.gradient_checkpointing",
    "GRPOConfig.per_device_train_batch_size",
    "GRPOConfig.steps_per_generation",
    "GRPOConfig.use_vllm",
    "GRPOConfig.vllm_gpu_memory_utilization",
    "GRPOConfig.vllm_max_model_length",
    "GRPOConfig.vllm_mode",
    "GRPOConfig.vllm_tensor_parallel_size",
    "evaluation.generated_by",
)
"""Settings that memory depends on and that rules decide."""


def share_needed(
    context: Context, values: Mapping[str, object], reads: Collection[str], phases: Collection[str] = ()
) -> float | None:
    """The share of a GPU that a recipe would need with these settings; None if unknown.

    reads: the keys that the asking rule waits for; for other decided keys the estimate uses the recipe's values.
    phases: those that count; empty means all.
    """
    if (memory := gpu_bytes(context)) is None:
        return None
    from grpo_recipes.rules._shared.memory_needs import memory_needs  # a recipe for a CPU does not pay for it

    context = context.as_written(*(key for key in DECIDED if key not in reads))
    settings = context.settings
    tried = settings.having(settings[key]._replace(value=value) for key, value in values.items())
    try:
        needs = memory_needs(context._replace(settings=tried), decides=True)
    except NotJudged:
        return None
    found = [] if isinstance(needs, str) else needs.estimate().phases
    sizes = [phase.total() for phase in found if not phases or phase.name in phases]
    return max(sizes) / memory if sizes else None


def answers_fit(context: Context, values: Mapping[str, object], reads: Collection[str]) -> bool:
    """Whether answering held-out rows fits comfortably, beside the weights that ZeRO-3 gathers for it.

    Without ZeRO-3 they need less than an update does. values, reads: as in share_needed.
    """
    if context.value("distributed.strategy") != "zero3":
        return True
    from grpo_recipes.memory.estimate import TIGHT  # as above

    share = share_needed(context, values, reads, ("evaluation",))
    return share is None or share <= TIGHT
