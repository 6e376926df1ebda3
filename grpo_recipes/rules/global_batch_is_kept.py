"""The global batch is the recipe's: it is the same on 1 GPU and on 64, or the recipe is refused.

One optimizer step trains on `prompts_per_step` x `num_generations` completions over all processes. From that and
the number of processes come the micro-batch (given, or the largest whose tokens fit), the accumulation steps and the
steps that one generation feeds. Where the completions cannot be split evenly, another batch would be another
experiment, so that is an error and not a rounding.

TRL's own batch fields may be written under `trl:` instead of `prompts_per_step`; then only TRL's divisibility is
checked (see BAT002).
"""

from collections.abc import Iterator
from math import gcd

from grpo_recipes.finding import Finding, Patch
from grpo_recipes.rules.context import Context, decided
from grpo_recipes.rules.cut import MICRO_BATCH, SIZE, claimed, is_kept
from grpo_recipes.settings import Setting

ID = "BAT001"
ACCUMULATION = "GRPOConfig.gradient_accumulation_steps"
STEPS_PER_GENERATION = "GRPOConfig.steps_per_generation"
OWNS = (MICRO_BATCH, ACCUMULATION, STEPS_PER_GENERATION)
ORDER = 10
COMPLETION_TOKENS = 16384
"""A micro-batch holds at most so many completion tokens; more gains no speed and costs activations."""


def _completions(context: Context) -> tuple[int, int, int]:
    """Prompts per step, completions per step, processes. Raises NotJudged without prompts_per_step."""
    prompts = context.whole("training.prompts_per_step")
    return (
        prompts,
        prompts * context.whole("GRPOConfig.num_generations"),
        context.whole("world.num_processes"),
    )


def _micro_batch(context: Context, per_process: int, processes: int) -> int | None:
    """The micro-batch of a process, None where the target can make none.

    The largest divisor of the process' completions whose tokens fit; where the target asks for whole groups, the
    smallest that has them rather than none; one prompt, or all completions, where the experiment is no other.
    """
    generations, cut = context.whole("GRPOConfig.num_generations"), claimed(context, SIZE)
    if cut is not None:
        return cut
    if context.value("batch.one_prompt") is True:
        return generations if per_process % generations == 0 else None
    if context.value("batch.in_one_piece") is True:
        return per_process
    groups = generations if context.value("batch.whole_groups") is True else 1
    smallest = groups // gcd(groups, processes)
    if per_process % smallest:
        return None
    limit = max(1, COMPLETION_TOKENS // context.whole("GRPOConfig.max_completion_length"))
    sizes = (smallest * count for count in range(min(limit, per_process) // smallest, 0, -1))
    return next((size for size in sizes if per_process % size == 0), smallest)


def decide(context: Context) -> Iterator[Setting]:
    if context.value("training.prompts_per_step") is None:
        yield from _from_trl_fields(context)
        return
    prompts, completions, processes = _completions(context)
    if completions % processes or _trl_fields(context):
        return
    per_process = completions // processes
    size = context.value(MICRO_BATCH)
    if size == "auto":
        size = _micro_batch(context, per_process, processes)
        if size is None:
            return
        yield decided(MICRO_BATCH, size, ID, _why(context, size, per_process), context.settings)
    if not isinstance(size, int) or per_process % size:
        return
    accumulation = per_process // size
    steps = accumulation * context.whole("grpo.optimizer_steps_per_generation")
    why = f"{prompts} prompts x {completions // prompts} generations / {processes} processes / {size} in a micro-batch"
    yield decided(ACCUMULATION, accumulation, ID, why, context.settings)
    why = f"{accumulation} accumulation steps x {context.value('grpo.optimizer_steps_per_generation')} optimizer steps"
    yield decided(STEPS_PER_GENERATION, steps, ID, why, context.settings)


def _why(context: Context, size: int, per_process: int) -> str:
    """Why the micro-batch has this size."""
    if claimed(context, SIZE) is not None:
        return f"{SIZE} is {size}"
    for key in ("batch.one_prompt", "batch.in_one_piece"):
        if context.value(key) is True:
            return context.settings[key].why
    whole = " in whole groups" if context.value("batch.whole_groups") is True else ""
    if size * context.whole("GRPOConfig.max_completion_length") > COMPLETION_TOKENS:
        return f"smallest divisor of {per_process} completions per process{whole}"
    return (
        f"largest divisor of {per_process} completions per process{whole} within {COMPLETION_TOKENS} completion tokens"
    )


def _trl_fields(context: Context) -> list[str]:
    """TRL's own batch fields that the user wrote; null is nothing."""
    keys = (ACCUMULATION, STEPS_PER_GENERATION, "GRPOConfig.generation_batch_size")
    return [key for key in keys if context.given(key) and context.settings[key].value is not None]


def _from_trl_fields(context: Context) -> Iterator[Setting]:
    if context.value(MICRO_BATCH) == "auto":
        one_prompt, cut = context.value("batch.one_prompt") is True, claimed(context, SIZE)
        size = cut or (context.whole("GRPOConfig.num_generations") if one_prompt else 8)
        why = context.settings["batch.one_prompt"].why if one_prompt else "TRL's own default"
        why = why if cut is None else f"{SIZE} is {size}"
        yield decided(MICRO_BATCH, size, ID, why, context.settings)
    if context.value(ACCUMULATION) is None:
        yield decided(ACCUMULATION, 1, ID, "TRL's own default", context.settings)


def check(context: Context) -> Iterator[Finding]:
    trl_fields = _trl_fields(context)
    if context.value("training.prompts_per_step") is None:
        if not trl_fields:
            yield context.finding(
                ID,
                "`training` lacks prompts_per_step",
                "training.prompts_per_step",
                because=["nothing else says how large the batch is"],
                fix="prompts_per_step: 16",
                patch=[Patch(("training", "prompts_per_step"), 16)],
            )
        return
    for key in [key for key in trl_fields if not context.settings[key].refused]:
        yield context.finding(
            ID,
            f"{context.recipe_key(key)} and training.prompts_per_step both say how large the batch is",
            key,
            because=["accumulation is derived from prompts_per_step and the processes"],
            fix=f"remove {key.rpartition('.')[2]}",
            patch=[Patch(context.settings[key].path or (), remove=True)],
        )
    if not trl_fields and is_kept(context):
        yield from _split(context)


def _split(context: Context) -> Iterator[Finding]:
    prompts, completions, processes = _completions(context)
    generations = completions // prompts
    if completions % processes:
        least = processes // gcd(processes, generations)
        better = -(-prompts // least) * least
        fewer = next(number for number in range(processes - 1, 0, -1) if completions % number == 0)
        yield context.finding(
            ID,
            f"{completions} completions per step cannot be split over {processes} processes",
            "training.prompts_per_step",
            because=[
                f"{completions} = prompts_per_step {prompts} ({context.origin('training.prompts_per_step')})"
                f" x num_generations {generations} ({context.origin('GRPOConfig.num_generations')})",
                f"{processes} processes: {context.settings['world.num_processes'].why}",
            ],
            fix=f"prompts_per_step: {better}, or launch.num_processes: {fewer} for the same experiment",
            patch=[Patch(("training", "prompts_per_step"), better)],
        )
        return
    size, per_process = context.whole(MICRO_BATCH), completions // processes
    if per_process % size:
        better = _micro_batch(context, per_process, processes) or per_process
        yield context.finding(
            ID,
            f"{per_process} completions per process cannot be cut into micro-batches of {size}",
            MICRO_BATCH,
            because=[
                f"{per_process} = prompts_per_step {prompts} ({context.origin('training.prompts_per_step')})"
                f" x num_generations {generations} ({context.origin('GRPOConfig.num_generations')})"
                f" / {processes} process{'' if processes == 1 else 'es'}",
            ],
            fix=f"per_device_train_batch_size: {better}",
            patch=[Patch(("training", "per_device_train_batch_size"), better)],
        )
