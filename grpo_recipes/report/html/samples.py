"""Which of a run's completions a report shows: of each stretch of its steps the best, the worst, and the first."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from grpo_recipes.contract.metrics import number
from grpo_recipes.report.html.series import stretch_width

MOST_STRETCHES = 16


class KeptCompletion(NamedTuple):
    """A completion as completions.jsonl has it."""

    step: int
    row: Mapping[str, object]

    @property
    def total(self) -> float | None:
        """The weighted reward, None where it is not known."""
        return number(self.row, "reward")


def kept_completions(event: Mapping[str, object]) -> list[KeptCompletion]:
    """The completions of a line; what is not as the worker writes it is left out."""
    step, rows = number(event, "step"), event.get("rows")
    if event.get("event") != "completions" or step is None or step < 0 or not isinstance(rows, list):
        return []
    return [KeptCompletion(int(step), row) for row in rows if isinstance(row, Mapping)]


def chosen(kept: Sequence[KeptCompletion]) -> list[tuple[str, KeptCompletion]]:
    """Best, worst and drawn of each stretch, in the order of the steps; none twice."""
    width = stretch_width({one.step for one in kept}, MOST_STRETCHES)
    found = []
    for _, of_stretch in groupby(sorted(kept, key=lambda one: one.step), key=lambda one: one.step // width):
        stretch = list(of_stretch)
        judged = sorted((one for one in stretch if one.total is not None), key=lambda one: one.total or 0.0)
        kinds = {id(stretch[0]): ("drawn", stretch[0])}
        if judged and judged[0].total != judged[-1].total:
            kinds |= {id(judged[0]): ("worst", judged[0]), id(judged[-1]): ("best", judged[-1])}
        found += sorted(kinds.values(), key=lambda one: one[1].step)
    return found
