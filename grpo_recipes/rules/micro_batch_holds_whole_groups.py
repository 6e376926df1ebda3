"""A micro-batch of all processes holds whole groups if TRL compares rewards within it.

TRL 0.15 and 0.16 generate for one micro-batch at a time, so per_device_train_batch_size x processes must be a multiple
of num_generations; otherwise GRPOTrainer raises ValueError. Since 0.17, TRL generates the whole batch at once, and a
group may be split over the micro-batches of a step.
"""

from collections.abc import Iterator
from math import gcd

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.batch_cut import MICRO_BATCH, has_cut, micro_batch_key, micro_batch_patches
from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting

ID = "BAT003"
APPLIES_TO = {"trl": ">=0.15,<0.17"}
OWNS = ("batch.whole_groups",)


def decide(context: Context) -> Iterator[Setting]:
    yield rule_setting(OWNS[0], True, "this TRL compares rewards within a micro-batch")


def check(context: Context) -> Iterator[Finding]:
    size, processes = context.whole(MICRO_BATCH), context.whole("world.num_processes")
    generations = context.whole("GRPOConfig.num_generations")
    if size * processes % generations == 0:
        return
    better = generations // gcd(generations, processes)
    own = has_cut(context) or context.value("training.prompts_per_step") is None
    yield context.finding(
        f"a micro-batch of {size * processes} completions splits groups of {generations}",
        micro_batch_key(context),
        [
            f"{size * processes} = per_device_train_batch_size {size} x {processes} processes",
            f"trl {context.stack.version('trl')} raises ValueError in GRPOTrainer",
        ],
        fix=f"per_device_train_batch_size: {better if own else 'auto'}, or trl==0.17.0",
        patch=micro_batch_patches(context, better if own else "auto"),
    )
