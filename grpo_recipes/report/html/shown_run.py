"""One run as the parts of a page: texts and rows, all plain, in the order in which they are read."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from grpo_recipes.contract.event_words import clock
from grpo_recipes.contract.metric_names import CLIPPED_RATIO, GROUPS_WITHOUT_VARIANCE
from grpo_recipes.contract.metrics import Event, change_text, figures_of, number
from grpo_recipes.contract.run_record import RunRecord, launches_text
from grpo_recipes.launch.summary import status_line
from grpo_recipes.report.html import recorded
from grpo_recipes.report.html.reported_run import ReportedRun
from grpo_recipes.report.html.samples import KeptCompletion, chosen
from grpo_recipes.report.html.series import NO_FOLDER, figure, gib, percent, shown_text
from grpo_recipes.report.html.troubles import BAD, WARNING, Trouble, troubles

_TITLES = {"experiment": "Experiment", "machine": "Machine", "bookkeeping": "Bookkeeping"}
_SHIMS = "shims."
_LONGEST_TEXT = 3000
"""Characters that are shown of a prompt or a completion."""
_MOST_ROWS = 400
_GOOD, _BUSY = "good", "busy"


def shown_run(run: ReportedRun, place: int) -> dict[str, Any]:
    """What the template has of a run. place: among the runs of the page, from 0. of: the run itself."""
    found, samples = troubles(run), [_sample(*one) for one in chosen(run.kept)]
    return {
        "of": run,
        "place": place,
        "name": run.plain(run.listed.name),
        "level": _level(run, found),
        "headline": headline(run),
        "subtitle": _subtitle(run),
        "troubles": found,
        "tiles": _tiles(run),
        "plan": {title: rows for kind, title in _TITLES.items() if (rows := _settings(run, kind))},
        "shims": [row for row in _settings(run) if str(row.get("key")).startswith(_SHIMS)],
        "held_out": held_out(run),
        "samples": samples,
        "ways": list(dict.fromkeys(one["ended"] for one in samples if one["ended"])),
        "memory": recorded.memory(run),
        "times": recorded.times(run),
        "proofs": [one for one in (run.record.proofs or ())[:100] if isinstance(one, Mapping)],
        "checks": recorded.checks(run),
        "lineage": recorded.lineage(run),
        "versions": recorded.versions(run),
    }


def headline(run: ReportedRun) -> str:
    """How a run stands: "completed at step 100 of 100"."""
    listed = run.listed
    line = status_line(RunRecord(status=listed.status, step=listed.step, max_steps=listed.max_steps))
    return f"{line}, says a file that was changed" if listed.changed and listed.step is not None else line


def _level(run: ReportedRun, found: Sequence[Trouble]) -> str:
    levels = {one.level for one in found}
    if BAD in levels:
        return BAD
    if run.listed.status in ("running", "planned"):
        return WARNING if WARNING in levels else _BUSY
    return WARNING if WARNING in levels or run.listed.status != "completed" else _GOOD


def _subtitle(run: ReportedRun) -> str:
    """The experiment in words."""
    recipe = run.plan.get("recipe")
    description = recipe.get("description") if isinstance(recipe, Mapping) else None
    return run.plain(description) if isinstance(description, str) else ""


def _tiles(run: ReportedRun) -> list[tuple[str, str, str]]:
    """The figures that say most, those that are known: label, value and note."""
    tiles, figures, listed = [], run.series.figures, run.listed
    if run.series.has("reward"):
        first, last, steps = figures["reward"].ends()
        note = f"first and last {steps} steps" if steps > 1 else "first and last step"
        tiles.append(("Training reward", f"{figure(first, 3)} → {figure(last, 3)}", note))
    if listed.before is not None or listed.after is not None:
        counts = run.record.evaluation.get("counts")
        note = "before and after"
        if isinstance(counts, Mapping):
            rows, before, after = (number(counts, key) for key in ("rows", "right_before", "right_after"))
            if rows and before is not None and after is not None:
                note = f"right: {before:.0f} → {after:.0f} of {rows:.0f} rows"
        if listed.before is None or listed.after is None:
            note = "before" if listed.after is None else "after"
        ends = [figure(one, 3) for one in (listed.before, listed.after) if one is not None]
        tiles.append(("Held-out reward", " → ".join(ends), note))
    for name, label in (
        (CLIPPED_RATIO, "Truncated"),
        (GROUPS_WITHOUT_VARIANCE, "Groups without variance"),
    ):
        if run.series.has(name):
            _, last, steps = figures[name].ends()
            note = f"last {steps} steps" if steps > 1 else "last step"
            tiles.append((label, percent(last), note))
    duration = run.record.duration or {}
    each = number(duration, "seconds_per_step")
    if listed.seconds is not None:
        notes = [launches_text(run.record), "" if each is None else f"{figure(each)} s a step"]
        tiles.append(("Time", clock(listed.seconds), ", ".join(filter(None, notes))))
    peak = max((size for one in run.record.memory.values() if (size := _measured(one)) is not None), default=None)
    if peak is not None:
        tiles.append(("Most memory", gib(peak), f"of any process {launches_text(run.record)}".rstrip()))
    return tiles


def _measured(phase: object) -> float | None:
    return number(phase, "measured") if isinstance(phase, Mapping) else None


def _settings(run: ReportedRun, kind: str | None = None) -> list[Mapping[str, Any]]:
    """The rows of the plan, or those of a kind that are no shims."""
    rows = run.plan.get("settings")
    found = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    if kind is None:
        return found
    return [row for row in found if row.get("kind") == kind and not str(row.get("key")).startswith(_SHIMS)][:_MOST_ROWS]


def _sample(kind: str, one: KeptCompletion) -> dict[str, Any]:
    row, tokens = one.row, number(one.row, "tokens")
    rewards = row.get("rewards")
    given = rewards if isinstance(rewards, Mapping) else {}
    return {
        "step": one.step,
        "kind": kind,
        "prompt": _long_text(row.get("prompt")),
        "completion": _long_text(row.get("completion")),
        "rewards": [(shown_text(name, NO_FOLDER), figure(number(given, name))) for name in list(given)[:40]],
        "total": figure(one.total),
        "advantage": figure(number(row, "advantage")),
        "tokens": "" if tokens is None else f"{tokens:,.0f} token{'s' * (tokens != 1)}",
        "ended": shown_text(content_text(row.get("ended"))[:20], NO_FOLDER),
    }


def _long_text(value: object) -> str:
    """A text, its middle left out where it is longer than is shown: the end of a completion has its answer."""
    text = content_text(value)
    if len(text) > _LONGEST_TEXT:
        half = _LONGEST_TEXT // 2
        text = f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
    return shown_text(text, NO_FOLDER, 2 * _LONGEST_TEXT)


def written_at(run: ReportedRun) -> str:
    """When the last word of a run was said, "" where nothing was."""
    at = run.last_time
    if at is None or not 0 < at < time.time() + 1e9:
        return ""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


_MOST_EXAMPLES = 12
_MOST_COLUMNS = 20


def held_out(run: ReportedRun) -> dict[str, Any]:
    """The evaluations as a table with their intervals, what changed since step 0, and rows that became right."""
    events = [run.evaluations[step] for step in sorted(run.evaluations)]
    cells = [_cells(one) for one in events]
    names = list(dict.fromkeys(name for one in cells for name in one))[:_MOST_COLUMNS]
    examples = run.record.evaluation.get("examples")
    return {
        "names": names,
        "rows": [
            (figure(number(event, "step")), figure(number(event, "count")), *(one.get(name, "") for name in names))
            for event, one in zip(events, cells, strict=True)
        ],
        "intervals": run.plain(_method(events[-1])) if events else "",
        "changed": run.plain(change_text(events[-1]) or "") if events else "",
        "became": _became(run),
        "examples": [
            [run.plain(content_text(one.get(key))) for key in ("prompt", "before", "after")]
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


def content_text(value: object) -> str:
    """A text, or that of the last message of a conversation."""
    if isinstance(value, list) and value and isinstance(value[-1], Mapping):
        value = value[-1].get("content")
    return value if isinstance(value, str) else ""
