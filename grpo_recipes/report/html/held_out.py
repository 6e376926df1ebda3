"""What came of the held-out rows, as parts of a page."""

from collections.abc import Mapping
from typing import Any

from grpo_recipes.contract.metrics import Event, change_text, figures_of, number
from grpo_recipes.report.html.reported_run import ReportedRun
from grpo_recipes.report.html.words import figure

_MOST_EXAMPLES = 12
_MOST_COLUMNS = 20


def held_out(run: ReportedRun) -> dict[str, Any]:
    """The evaluations as a table with their intervals, what changed since step 0, and rows that became right."""
    events = [run.evaluations[step] for step in sorted(run.evaluations)]
    cells = [_cells(one) for one in events]
    names = list(dict.fromkeys(name for one in cells for name in one))[:_MOST_COLUMNS]
    examples = run.record.evaluation.get("examples")
    changed = change_text(events[-1]) if events else None
    return {
        "names": [run.plain(name) for name in names],
        "rows": [
            {
                "step": figure(number(event, "step")),
                "rows": figure(number(event, "count")),
                "figures": [one.get(name, "") for name in names],
            }
            for event, one in zip(events, cells, strict=True)
        ],
        "intervals": run.plain(_method(events[-1])) if events else "",
        "changed": run.plain(changed) if changed else "",
        "became": _became(run),
        "examples": [
            {key: run.plain(_content(one.get(key))) for key in ("prompt", "before", "after")}
            for one in (examples if isinstance(examples, list) else [])[:_MOST_EXAMPLES]
            if isinstance(one, Mapping)
        ],
    }


def _cells(event: Event) -> dict[str, str]:
    """Each figure of an evaluation by its name, with its interval where the event has one."""
    found = figures_of(event, _intervals(event))
    return {
        name: figure(value) + ("" if ends is None else f" ({figure(ends[0])} to {figure(ends[1])})")
        for name, value, ends in found
    }


def _intervals(event: Event) -> Mapping[str, object]:
    intervals = event.get("intervals")
    return intervals if isinstance(intervals, Mapping) else {}


def _method(event: Event) -> str:
    """How the intervals were made: "95 % intervals by percentile bootstrap over rows"."""
    intervals = _intervals(event)
    level, method = number(intervals, "level"), intervals.get("method")
    return "" if level is None or not isinstance(method, str) else f"{100 * level:.3g} % intervals by {method}"


def _became(run: ReportedRun) -> str:
    counts = run.record.evaluation.get("counts")
    if not isinstance(counts, Mapping):
        return ""
    right, wrong = number(counts, "became_right"), number(counts, "became_wrong")
    return "" if right is None or wrong is None else f"{right:.0f} rows became right, {wrong:.0f} became wrong"


def _content(value: object) -> str:
    """A text, or that of the last message of a conversation."""
    if isinstance(value, list) and value and isinstance(value[-1], Mapping):
        value = value[-1].get("content")
    return value if isinstance(value, str) else ""
