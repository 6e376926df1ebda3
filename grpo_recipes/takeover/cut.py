"""How the batch was cut becomes part of the experiment, where the loss depends on it: `training.cut`."""

from grpo_recipes.takeover.basis.draft import Row
from grpo_recipes.takeover.basis.situation import Situation
from grpo_recipes.takeover.kept import refuse

LOSS, QUANTILE = "grpo.loss_type", "grpo.top_entropy_quantile"
CUT, SIZE = "training.cut", "training.per_device_train_batch_size"
BECAUSE = {
    LOSS: "bnpo divides by the tokens of a micro-batch",
    QUANTILE: "its threshold is that of a micro-batch",
}
UNKNOWN = "and how many processes share the batch is said nowhere: --accelerate FILE or --num-processes N says it"


def keep_the_cut(situation: Situation) -> None:
    """Writes processes and micro-batch where the loss depends on them; refuses it where they are not known."""
    values = situation.draft.values
    where = _depends(values)
    if where is None:
        return
    processes, size = situation.processes, values.get(SIZE)
    if not isinstance(size, int) or (processes or 1) * _parts(situation, size, processes or 1) == 1:
        return
    if processes is None:
        refuse(situation, where.partition(".")[2], where, f"{BECAUSE[where]}, {UNKNOWN}")
    else:
        _write(situation, where, processes, size)


def _depends(values: dict[str, object]) -> str | None:
    """The key of the value that is another one for each cut."""
    if values.get(LOSS) == "bnpo":
        return LOSS
    return QUANTILE if values.get(QUANTILE, 1.0) != 1.0 else None


def _parts(situation: Situation, size: int, processes: int) -> int:
    """Accumulation steps of an optimizer step."""
    values = situation.draft.values
    accumulation = values.get("trl.gradient_accumulation_steps")
    if isinstance(accumulation, int):
        return accumulation
    prompts, generations = values.get("training.prompts_per_step"), situation.value("num_generations")
    if isinstance(prompts, int) and isinstance(generations, int):
        return prompts * generations // (size * processes)
    return 1


def _write(situation: Situation, where: str, processes: int, size: int) -> None:
    draft = situation.draft
    comment = draft.comments.pop(SIZE, "")
    del draft.values[SIZE]
    draft.values |= {f"{CUT}.processes": processes, f"{CUT}.{SIZE.rpartition('.')[2]}": size}
    because = f"{BECAUSE[where]}, so processes and micro-batch are part of the experiment"
    draft.comments[CUT] = "; ".join(text for text in (because, comment) if text)
    if all(row.where != (where,) for row in draft.rows):
        name = f"{where.partition('.')[2]} (the default of trl {situation.release.trl})"
        draft.rows.append(Row(name, draft.values[where], "emulated", (where, CUT), because))
    for place, row in enumerate(draft.rows):
        if row.where == (SIZE,):
            draft.rows[place] = Row(row.key, row.value, row.fate, (f"{CUT}.{SIZE.rpartition('.')[2]}",), row.because)
