"""The cut of the batch that a recipe claims with `training.cut`, for the rules that keep it or depend on it.

Also counts the optimizer steps that a generation feeds.
"""

from math import gcd

from grpo_recipes.contract.findings.finding import Patch
from grpo_recipes.rules._shared.context import Context, NotJudged

PROCESSES, SIZE = "training.cut.processes", "training.cut.per_device_train_batch_size"
MICRO_BATCH = "GRPOConfig.per_device_train_batch_size"
ACCUMULATION, FEEDS = "GRPOConfig.gradient_accumulation_steps", "GRPOConfig.steps_per_generation"
ITERATIONS, BATCH = "GRPOConfig.num_iterations", "GRPOConfig.generation_batch_size"


def has_cut(context: Context) -> bool:
    """Whether the recipe claims a cut, right or wrong."""
    return PROCESSES in context.settings


def number_of_cut(context: Context, key: str) -> int | None:
    """The number at PROCESSES or SIZE; None without a cut or for a refused number."""
    setting = context.settings.get(key)
    if setting is None or setting.refused or not isinstance(setting.value, int):
        return None
    return setting.value


def has_its_processes(context: Context) -> bool:
    """Whether as many processes train as the recipe claims; True without a claim."""
    return number_of_cut(context, PROCESSES) in (None, context.value("world.num_processes"))


def has_its_micro_batch(context: Context) -> bool:
    """Whether a written micro-batch equals the claimed one."""
    return not context.is_given(MICRO_BATCH) or number_of_cut(context, SIZE) in (None, context.value(MICRO_BATCH))


def micro_batch_key(context: Context) -> str:
    """The key that sets the micro-batch."""
    return SIZE if has_cut(context) and not context.is_given(MICRO_BATCH) else MICRO_BATCH


def micro_batch_patches(context: Context, size: object) -> list[Patch]:
    """Patches that write a different micro-batch into the recipe, wherever it has one."""
    own, of_the_cut = ("training", "per_device_train_batch_size"), ("training", "cut", "per_device_train_batch_size")
    if not has_cut(context):
        return [Patch(own, size)]
    return [Patch(of_the_cut, size), *([Patch(own, size)] if context.is_given(MICRO_BATCH) else [])]


def steps_of_generations(context: Context) -> int:
    """Optimizer steps after which one or several generations are used up."""
    batches, accumulation = micro_batches_fed(context) * context.whole(ITERATIONS), context.whole(ACCUMULATION)
    if batches < 1 or accumulation < 1:
        raise NotJudged(FEEDS)
    return batches // gcd(batches, accumulation)


def micro_batches_fed(context: Context) -> int:
    """Micro-batches per process in one generation."""
    feeds, batch = context.value(FEEDS), context.value(BATCH)
    if isinstance(feeds, int):
        return feeds
    size = context.whole(MICRO_BATCH) * context.whole("world.num_processes")
    if isinstance(batch, int) and size > 0:
        return batch // size
    return context.whole(ACCUMULATION)
