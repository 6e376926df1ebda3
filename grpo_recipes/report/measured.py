"""What a run measured, beside a comparison of plans: it says how a run went, nothing about the experiment."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

from grpo_recipes.contract.run_record import RunRecord


class Measured(TypedDict):
    """status, step and max_steps as in run.json; before and after: its held-out evaluations, None where none was."""

    status: str
    step: int | None
    max_steps: int | None
    before: Mapping[str, object] | None
    after: Mapping[str, object] | None


def measured(record: RunRecord) -> Measured:
    """What a comparison shows of a run's record."""
    before, after = (record.evaluation.get(when) for when in ("before", "after"))
    return Measured(
        status=record.status,
        step=record.step,
        max_steps=record.max_steps,
        before=before if isinstance(before, Mapping) else None,
        after=after if isinstance(after, Mapping) else None,
    )


def measured_rows(both: Sequence[Measured | None]) -> list[tuple[str, str, str]]:
    """Name and text of each figure on both sides, "-" where there is none; empty without a run."""
    if not any(both):
        return []
    sides = [_texts(one) if one is not None else {} for one in both]
    names = dict.fromkeys([*sides[0], *sides[1]])
    return [(name, sides[0].get(name, "-"), sides[1].get(name, "-")) for name in names]


def _texts(one: Measured) -> dict[str, str]:
    from grpo_recipes.contract.metrics import evaluation_text, figure, figures_of  # comparisons of runs need it alone

    step = "" if one["step"] is None else f" at step {one['step']}"
    of = "" if one["max_steps"] is None or not step else f" of {one['max_steps']}"
    texts = {"status": f"{one['status']}{step}{of}"}
    for name, event in (("held out before", one["before"]), ("held out after", one["after"])):
        intervals = None if event is None else event.get("intervals")
        if event is not None and isinstance(intervals, Mapping):
            found = figures_of(event, intervals)
            texts |= {f"{name}, {one}": figure(value, ends) for one, value, ends in found}
        elif event is not None:
            texts[name] = evaluation_text(event)
    return texts
