"""The batch: micro-batch, accumulation and processes become prompts per step, or stay TRL's own fields."""

from dataclasses import dataclass, replace

from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.facts.expression import Passed, expression
from grpo_recipes.facts.source.field import Field
from grpo_recipes.takeover.basis.context import Situation
from grpo_recipes.takeover.basis.read import Unreadable, as_trl_reads

MICRO_BATCH = "per_device_train_batch_size"
ACCUMULATION = "gradient_accumulation_steps"
STEPS = "steps_per_generation"
GENERATION = "generation_batch_size"
PER_STEP = "training.prompts_per_step"
OTHER_RELEASE = "name the release that the file was written for with --written-for"
BOTH = "GRPOConfig raises ValueError for it together with steps_per_generation, which is used here: write one of them"


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """The batch as the configuration has it. micro_batch: completions per process. steps, generation: as TRL has them,
    None if not set.
    """

    micro_batch: int
    accumulation: int
    steps: int | None
    generation: int | None
    generations: int

    def prompts(self, processes: int) -> int | None:
        """The prompts per optimizer step, None if not a whole number."""
        completions = self.micro_batch * self.accumulation * processes
        return completions // self.generations if completions % self.generations == 0 else None

    def optimizer_steps(self, processes: int) -> int | None:
        """The optimizer steps per generation, None if not a whole number."""
        steps = self.steps
        if self.generation is not None:
            step = self.micro_batch * processes
            steps = self.generation // step if self.generation % step == 0 else 0
        if steps is None:
            return 1
        return steps // self.accumulation if steps and steps % self.accumulation == 0 else None


def take_batch(situation: Situation) -> None:
    """Takes over all keys of the batch; without a known number of processes it stays open."""
    try:
        batch = _batch(situation)
    except Unreadable as problem:
        for name in (MICRO_BATCH, ACCUMULATION, STEPS, GENERATION):
            if name in situation.given:
                situation.given.refused(name, f"TRL cannot take it: {problem}", PER_STEP)
        situation.draft.put(PER_STEP, 16, "replace it with yours")
        return
    batch = _as_the_release_takes_it(situation, batch)
    processes = situation.processes
    if processes is not None:
        prompts, steps = batch.prompts(processes), batch.optimizer_steps(processes)
        if prompts and steps:
            _global(situation, batch, processes, prompts, steps)
            return
    _own_fields(situation, batch)


def _as_the_release_takes_it(situation: Situation, batch: WrittenBatch) -> WrittenBatch:
    """The batch without keys that the release lacks, and with only one of two synonyms: it raises for both."""
    given, where = situation.given, "grpo.optimizer_steps_per_generation"
    for name, said in ((STEPS, batch.steps), (GENERATION, batch.generation)):
        if said is not None and name not in situation.release.fields:
            given.refused(name, f"trl {situation.release.trl} has no such field: {OTHER_RELEASE}", where)
            batch = replace(batch, steps=None) if name == STEPS else replace(batch, generation=None)
    if batch.steps is not None and batch.generation is not None:
        shared, left = divmod(batch.generation, batch.micro_batch * batch.steps)
        if left == 0 and shared == (situation.processes or shared) > 0:
            # GRPOConfig.to_dict() contains both, one computed from the other.
            follows = f"steps_per_generation sets it, with {shared} process{'es' * (shared > 1)}"
            given.mapped(GENERATION, None, because=follows)
        else:
            given.refused(GENERATION, BOTH, where)
        batch = replace(batch, generation=None)
    return batch


def _batch(situation: Situation) -> WrittenBatch:
    generations = _number(situation, "num_generations") or 8
    micro_batch = _number(situation, MICRO_BATCH) or 8
    return WrittenBatch(
        micro_batch * _completions_of_one(situation, generations),
        _number(situation, ACCUMULATION) or 1,
        _number(situation, STEPS),
        _number(situation, GENERATION),
        generations,
    )


def _number(situation: Situation, name: str) -> int | None:
    """The value of a numeric field, by default the release's."""
    there: Field | None = situation.release.fields.get(name)
    if name in situation.given:
        value = as_trl_reads(situation.given.values[name], "int | None")
        if isinstance(value, int) and value < 1:
            raise Unreadable(f"{name} must be at least 1")
        return value if isinstance(value, int) else None
    return there.default if there is not None and isinstance(there.default, int) else None


def _completions_of_one(situation: Situation, generations: int) -> int:
    """The number of completions in one row of a micro-batch: a whole group if the release counts prompts."""
    field = classified_fields()[MICRO_BATCH]
    said = expression(field, generations, {"num_generations": generations}, situation.release.target)
    counted = said.value if isinstance(said, Passed) and isinstance(said.value, int) else generations
    return generations // counted


def _global(situation: Situation, batch: WrittenBatch, processes: int, prompts: int, steps: int) -> None:
    given, draft = situation.given, situation.draft
    sizes = f"{batch.micro_batch} completions x {batch.accumulation} accumulation steps x {processes} processes"
    draft.put(PER_STEP, prompts, f"{sizes} / {batch.generations} generations")
    draft.values["training.per_device_train_batch_size"] = batch.micro_batch
    if MICRO_BATCH in given:
        given.mapped(MICRO_BATCH, "training.per_device_train_batch_size", batch.micro_batch, _counted(situation, batch))
    if ACCUMULATION in given:
        given.told(ACCUMULATION, "emulated", PER_STEP, f"derived from {PER_STEP} {prompts}")
    if steps != 1:
        draft.put("grpo.optimizer_steps_per_generation", steps)
    for name in (STEPS, GENERATION):
        if name in given:
            because = f"one generation feeds {steps} optimizer step{'' if steps == 1 else 's'}"
            given.told(name, "emulated", "grpo.optimizer_steps_per_generation", because)


def _own_fields(situation: Situation, batch: WrittenBatch) -> None:
    """Writes TRL's own fields, which mean the same on as many processes as the user starts."""
    given, draft = situation.given, situation.draft
    draft.put(
        "training.per_device_train_batch_size",
        batch.micro_batch,
        "the number of processes is unknown, so the batch stays in TRL's own fields",
    )
    if MICRO_BATCH in given:
        given.mapped(MICRO_BATCH, "training.per_device_train_batch_size", batch.micro_batch, _counted(situation, batch))
    draft.values[f"trl.{ACCUMULATION}"] = batch.accumulation
    if ACCUMULATION in given:
        given.mapped(ACCUMULATION, f"trl.{ACCUMULATION}", batch.accumulation)
    for name, value in ((STEPS, batch.steps), (GENERATION, batch.generation)):
        if name in given:
            given.mapped(name, f"trl.{name}" if value is not None else None, value)


def _counted(situation: Situation, batch: WrittenBatch) -> str:
    said = situation.given.values.get(MICRO_BATCH)
    return "" if said == batch.micro_batch else f"the release counts prompts, with {batch.generations} completions each"
