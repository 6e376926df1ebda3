"""A generation batch holds whole groups of completions.

TRL generates per_device_train_batch_size x processes x steps_per_generation completions at a time, and compares rewards
within groups of num_generations. GRPOConfig refuses a generation batch that splits a group, and one that is not a
multiple of the global batch. This can happen only if you set TRL's own batch fields under `trl:`;
`training.prompts_per_step` always gives valid numbers. GRPOConfig accepts an empty batch; torch's data loader raises
ValueError for it, after loading the model.

TRL 0.17 has no fields for the generation batch: it is the batch of the optimizer step, and GRPOTrainer checks it. TRL
0.18.0 to 0.19.0 miss the second mistake because of a missing parenthesis, and then train fewer steps per generation.
"""

from collections.abc import Iterator
from math import gcd

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "BAT002"
APPLIES_TO = {"trl": ">=0.17"}
BATCH = "GRPOConfig.generation_batch_size"
STEPS = "GRPOConfig.steps_per_generation"
ACCUMULATION = "GRPOConfig.gradient_accumulation_steps"


def check(context: Context) -> Iterator[Finding]:
    if context.value("training.prompts_per_step") is not None:
        return
    written = [key for key in (ACCUMULATION, STEPS, BATCH) if context.is_given(key) and context.value(key) is not None]
    nothing = [key for key in written if context.whole(key) < 1]
    for key in nothing:
        name = key.rpartition(".")[2]
        because = "torch's data loader raises ValueError for an empty batch, after loading the model"
        yield context.wrong(
            f"{name} is {context.value(key)}, but must be at least 1", key, because, 1 if key == ACCUMULATION else None
        )
    if written and not nothing:  # without any of them BAT001 asks how large the batch is
        yield from _shape(context)


def _shape(context: Context) -> Iterator[Finding]:
    size, processes = (
        context.whole("GRPOConfig.per_device_train_batch_size"),
        context.whole("world.num_processes"),
    )
    generations = context.whole("GRPOConfig.num_generations")
    batch, steps = context.value(BATCH), context.value(STEPS)
    if batch is not None and steps is not None:
        because = ["each follows from the other, and GRPOConfig raises ValueError for both"]
        yield context.wrong("generation_batch_size and steps_per_generation cannot both be set", STEPS, because)
        return
    if isinstance(batch, int) and batch % (size * processes):
        step = size * processes
        better = max(step, batch // step * step)
        text = f"generation_batch_size {batch} is not a multiple of the global batch {step}"
        yield context.wrong(text, BATCH, f"{step} = per_device_train_batch_size {size} x {processes} processes", better)
        return
    yield from _groups(context, size, processes, generations)


def _groups(context: Context, size: int, processes: int, generations: int) -> Iterator[Finding]:
    batch, steps = context.value(BATCH), context.value(STEPS)
    if not isinstance(steps, int):
        steps = context.whole(ACCUMULATION)
    total = batch if isinstance(batch, int) else size * processes * steps
    if total % generations == 0:
        return
    key = BATCH if isinstance(batch, int) else STEPS if context.is_given(STEPS) else ACCUMULATION
    need = generations // gcd(generations, size * processes)
    value = size * processes * need if key == BATCH else need
    yield context.wrong(
        f"generation batch {total} is not a multiple of num_generations {generations}",
        key if context.is_given(key) else "GRPOConfig.num_generations",
        [
            f"{total} = per_device_train_batch_size {size} x {processes} processes x {steps} steps"
            if not isinstance(batch, int)
            else f"generation_batch_size is {batch}",
            "TRL raises ValueError, after seconds of imports in every process",
        ],
        value,
        at=("trl", key.rpartition(".")[2]),
    )
