"""In TRL 0.14 a micro-batch is one prompt with its completions.

TRL 0.14 counts prompts in per_device_train_batch_size, generates num_generations completions for each, and computes the
log-probs without an attention mask. With several prompts in a micro-batch it pads shorter ones on the left and silently
computes wrong log-probs after the padding: the gradient was 98 % off. With one prompt at a time it equals the gradient
of every other release. So each micro-batch has one prompt, and accumulation makes up the batch. A group cannot be split
over processes.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.batch_cut import MICRO_BATCH, has_cut, micro_batch_key, micro_batch_patches
from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting

ID = "BAT004"
APPLIES_TO = {"trl": "<0.15"}
OWNS = ("batch.one_prompt",)


def decide(context: Context) -> Iterator[Setting]:
    why = "this TRL computes wrong log-probs for padded prompts, so a micro-batch has one prompt"
    yield rule_setting(OWNS[0], True, why)


def check(context: Context) -> Iterator[Finding]:
    size, generations = context.value(MICRO_BATCH), context.whole("GRPOConfig.num_generations")
    if isinstance(size, int) and size != generations:
        yield context.finding(
            f"a micro-batch of {size} completions is not one prompt with its {generations} completions",
            micro_batch_key(context),
            f"trl {context.stack.version('trl')} passes no attention mask, and computes wrong"
            " log-probs for padded prompts",
            fix=f"per_device_train_batch_size: {generations}, {'' if has_cut(context) else 'or auto, '}or trl==0.15.2",
            patch=micro_batch_patches(context, generations),
        )
    if context.value("training.prompts_per_step") is not None:
        yield from _prompts(context)


def _prompts(context: Context) -> Iterator[Finding]:
    prompts, processes = context.whole("training.prompts_per_step"), context.whole("world.num_processes")
    if prompts % processes == 0:
        return
    better = -(-prompts // processes) * processes
    message = f"{prompts} prompts per step cannot be split over {processes} processes"
    because = f"trl {context.stack.version('trl')} generates all completions of a prompt in one process"
    yield context.wrong(
        message, "training.prompts_per_step", because, better, fix=f"prompts_per_step: {better}, or trl==0.17.0"
    )
