"""Activations are recomputed in the backward pass if the GPU has no room for them.

`gradient_checkpointing: auto` is false if an update fits into 0.85 of the GPU without it, as `grpo-run fit` estimates.
The estimate uses the micro-batch of the recipe, or one of 4096 completion tokens, which keeps a GPU busy. Recomputing
costs about a fifth of the time. In all other cases it is true: if the update does not fit, if the model, an option or
the GPU is unknown, and on a CPU. The results are the same either way.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.batch_cut import MICRO_BATCH
from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.fitting import FILLED, IN_AN_UPDATE, share_needed
from grpo_recipes.rules._shared.settings import Setting
from grpo_recipes.rules.global_batch_is_kept import OWNS as BATCH
from grpo_recipes.rules.global_batch_is_kept import largest_micro_batch

ID = "MEM002"
CHECKPOINTING = "GRPOConfig.gradient_checkpointing"
ENOUGH_TOKENS = 4096
OWNS = (CHECKPOINTING,)
READS = (
    "LoraConfig.exclude_modules",
    "world.all_gpus",
    "world.device",
    "world.num_processes",
    "distributed.strategy",
    "batch.one_prompt",
    "batch.whole_groups",
    "batch.in_one_piece",
    "GRPOConfig.max_prompt_length",
    "GRPOConfig.use_vllm",
    "GRPOConfig.vllm_mode",
)


def decide(context: Context) -> Iterator[Setting]:
    if context.value(CHECKPOINTING) != "auto":
        return
    context = context.as_written(*BATCH)
    size = context.value(MICRO_BATCH)
    size = largest_micro_batch(context, ENOUGH_TOKENS) if size == "auto" else size
    trial = {CHECKPOINTING: False} if size is None else {CHECKPOINTING: False, MICRO_BATCH: size}
    share = share_needed(context, trial, READS, IN_AN_UPDATE)
    if share is None:
        why = "how much memory an update needs without it is unknown"
    elif share > FILLED:
        why = f"an update without it needs {share:.0%} of the GPU, by an estimate, with {size} in a micro-batch"
    else:
        why = f"an update fits without it: {share:.0%} of the GPU, by an estimate, with {size} in a micro-batch"
        yield rule_setting(CHECKPOINTING, False, why)
        return
    yield rule_setting(CHECKPOINTING, True, why)
