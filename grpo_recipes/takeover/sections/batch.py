"""The batch: micro-batch, accumulation and processes become prompts per step, or stay TRL's own fields."""

from collections.abc import Mapping
from dataclasses import replace

from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.facts.expression import Passed, expression
from grpo_recipes.takeover.basis.context import Situation
from grpo_recipes.takeover.basis.draft import Row, Unreadable
from grpo_recipes.takeover.basis.trl_values import as_trl_reads

MICRO_BATCH, ACCUMULATION = "per_device_train_batch_size", "gradient_accumulation_steps"
STEPS, GENERATION = "steps_per_generation", "generation_batch_size"
KEYS = (MICRO_BATCH, ACCUMULATION, STEPS, GENERATION)
PER_STEP, SIZE, CUT = "training.prompts_per_step", f"training.{MICRO_BATCH}", "training.cut"
PER_GENERATION = "grpo.optimizer_steps_per_generation"
OTHER_RELEASE = "name the release that the file was written for with --written-for"
BOTH = "GRPOConfig raises ValueError for it together with steps_per_generation, which is used here: write one of them"
OPEN = "the number of processes is unknown, so the batch stays in TRL's own fields"


def take_batch(situation: Situation) -> int:
    """Takes over all keys of the batch; without a known number of processes it stays open.

    Returns the number of micro-batches of an optimizer step.
    """
    given, draft, processes = situation.given, situation.draft, situation.processes
    try:
        numbers = {name: _number(situation, name) for name in ("num_generations", *KEYS)}
    except Unreadable as problem:
        for name in KEYS:
            if name in given:
                given.refuse_key(name, f"TRL cannot take it: {problem}", PER_STEP)
        draft.put(PER_STEP, 16, "replace it with yours")
        return 1
    generations, accumulation = numbers["num_generations"] or 8, numbers[ACCUMULATION] or 1
    size = (numbers[MICRO_BATCH] or 8) * _completions_of_a_row(situation, generations)
    _drop_what_the_release_refuses(situation, numbers, size)
    prompts = steps = 0
    if processes is not None:
        prompts, steps = _global(numbers, size, processes)
    draft.put(SIZE, size, "" if prompts and steps else OPEN)
    if MICRO_BATCH in given:
        counted = f"the release counts prompts, with {generations} completions each"
        given.map_key(MICRO_BATCH, SIZE, size, "" if given.values[MICRO_BATCH] == size else counted)
    if prompts and steps:
        sizes = f"{size} completions x {accumulation} accumulation steps x {processes} processes"
        draft.put(PER_STEP, prompts, f"{sizes} / {generations} generations")
        _write_steps(situation, prompts, steps)
    else:  # TRL's own fields mean the same on as many processes as the user starts
        draft.values[f"trl.{ACCUMULATION}"] = accumulation
        for name, value in (numbers | {ACCUMULATION: accumulation}).items():
            if name in given and name != "num_generations":
                given.map_key(name, f"trl.{name}" if value is not None else "", value)
    return accumulation * (processes or 1)


def _write_steps(situation: Situation, prompts: int, steps: int) -> None:
    given = situation.given
    if ACCUMULATION in given:
        given.add_row(ACCUMULATION, "emulated", PER_STEP, f"derived from {PER_STEP} {prompts}")
    if steps != 1:
        situation.draft.put(PER_GENERATION, steps)
    fed = f"one generation feeds {steps} optimizer step{'' if steps == 1 else 's'}"
    for name in (STEPS, GENERATION):
        if name in given:
            given.add_row(name, "emulated", PER_GENERATION, fed)


def _global(numbers: Mapping[str, int | None], size: int, processes: int) -> tuple[int, int]:
    """The prompts per optimizer step, and the optimizer steps per generation; 0 for what is not a whole number."""
    accumulation, generation, left = numbers[ACCUMULATION] or 1, numbers[GENERATION], 0
    prompts, cut = divmod(size * accumulation * processes, numbers["num_generations"] or 8)
    steps = numbers[STEPS] or accumulation
    if generation is not None:
        steps, left = divmod(generation, size * processes)
    return 0 if cut else prompts, 0 if left or steps % accumulation else steps // accumulation


def _drop_what_the_release_refuses(situation: Situation, numbers: dict[str, int | None], size: int) -> None:
    """Drops keys that the release lacks, and one of two synonyms: it raises for both."""
    given = situation.given
    for name in (STEPS, GENERATION):
        if numbers[name] is not None and name not in situation.release.fields:
            given.refuse_key(name, f"trl {situation.release.trl} has no such field: {OTHER_RELEASE}", PER_GENERATION)
            numbers[name] = None
    steps, generation = numbers[STEPS], numbers[GENERATION]
    if steps is None or generation is None:
        return
    shared, left = divmod(generation, size * steps)
    if left == 0 and shared == (situation.processes or shared) > 0:
        # GRPOConfig.to_dict() contains both, one computed from the other.
        given.map_key(GENERATION, because=f"steps_per_generation sets it, with {shared} process{'es' * (shared > 1)}")
    else:
        given.refuse_key(GENERATION, BOTH, PER_GENERATION)
    numbers[GENERATION] = None


def _number(situation: Situation, name: str) -> int | None:
    """The value of a numeric field, by default the release's."""
    value = situation.value(name)
    if name in situation.given:
        value = as_trl_reads(value, "int | None")
        if isinstance(value, int) and value < 1:
            raise Unreadable(f"{name} must be at least 1")
    return value if isinstance(value, int) else None


def _completions_of_a_row(situation: Situation, generations: int) -> int:
    """The number of completions in one row of a micro-batch: a whole group if the release counts prompts."""
    field = classified_fields()[MICRO_BATCH]
    counted = expression(field, generations, {"num_generations": generations}, situation.release.target)
    return generations // counted.value if isinstance(counted, Passed) and isinstance(counted.value, int) else 1


LOSS, QUANTILE = "grpo.loss_type", "grpo.top_entropy_quantile"
BECAUSE = {
    LOSS: "bnpo divides by the tokens of a micro-batch",
    QUANTILE: "its threshold is that of a micro-batch",
}
UNKNOWN = "and the number of processes that share the batch is unknown: add --accelerate FILE or --num-processes N"


def keep_the_cut(situation: Situation, parts: int) -> None:
    """Writes processes and micro-batch if the loss depends on them; refuses it if they are unknown.

    parts: the micro-batches of an optimizer step.
    """
    draft, processes = situation.draft, situation.processes
    where = LOSS if draft.values.get(LOSS) == "bnpo" else QUANTILE
    size = draft.values.get(SIZE)
    is_cut = where == LOSS or draft.values.get(QUANTILE, 1.0) != 1.0
    if not is_cut or not isinstance(size, int) or parts == 1:
        return
    if processes is None:
        situation.settle(where.partition(".")[2], where, "refused", f"{BECAUSE[where]}, {UNKNOWN}")
        return
    comment, cut_size = draft.comments.pop(SIZE, ""), f"{CUT}.{MICRO_BATCH}"
    draft.values |= {f"{CUT}.processes": processes, cut_size: draft.values.pop(SIZE)}
    because = f"{BECAUSE[where]}, so processes and micro-batch are part of the experiment"
    draft.comments[CUT] = "; ".join(text for text in (because, comment) if text)
    if all(row.where != (where,) for row in draft.rows):
        name = f"{where.partition('.')[2]} (the default of trl {situation.release.trl})"
        draft.rows.append(Row(name, draft.values[where], "emulated", (where, CUT), because))
    draft.rows[:] = [replace(row, where=(cut_size,)) if row.where == (SIZE,) else row for row in draft.rows]
