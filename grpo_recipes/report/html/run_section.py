"""One run as the parts of a page: plain texts and rows, in reading order."""

import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from grpo_recipes.contract.event_words import clock
from grpo_recipes.contract.metric_names import CLIPPED_RATIO, GROUPS_WITHOUT_VARIANCE, REWARD_AS_DRAWN
from grpo_recipes.contract.metrics import Event, change_text, figures_of, left_out_text, mapping, mappings, number
from grpo_recipes.contract.plan_sections import lineage
from grpo_recipes.contract.run_record import (
    WARM_STEP,
    RunRecord,
    launches_text,
    of_each_set,
    time_shares,
    warm_start_text,
)
from grpo_recipes.contract.run_verdict import verdicts
from grpo_recipes.launch.summary import status_line
from grpo_recipes.report.html.problems import BAD, WARNING, RunProblem, run_problems
from grpo_recipes.report.html.run_data import KeptCompletion, ReportedRun, choose_examples
from grpo_recipes.report.html.series import NO_FOLDER, figure, gib, join_parts, percent, public_text
from grpo_recipes.report.plan_text import lineage_lines

_TITLES = {"experiment": "Experiment", "machine": "Machine", "bookkeeping": "Bookkeeping"}
_SHIMS = "shims."
_BASE64, _MOST_IMAGES = re.compile(r"[A-Za-z0-9+/]{4,40000}={0,2}"), 4
_LONGEST_TEXT = 3000
"""Characters to show of a prompt or a completion."""
_MOST_ROWS = 400
_GOOD, _BUSY = "good", "busy"


def template_values(run: ReportedRun, index: int) -> dict[str, Any]:
    """A run's values for the template. index: its position on the page, from 0. of: the run itself."""
    problems, samples = run_problems(run), [_sample(*pick) for pick in choose_examples(run.kept)]
    judged = verdicts(run.record)
    texts = [run.plain(verdict.text) for verdict in judged if verdict.level != "warning"]
    leads = texts[:1] if judged and judged[0].level != "warning" else []
    return {
        "of": run,
        "place": index,
        "name": run.plain(run.listed.name),
        "level": _level(run, problems),
        "headline": [*leads, standing(run)][0],
        "lines": [*([standing(run)] if leads else []), *texts[len(leads) :]],
        "short": (not run.listed.changed and run.listed.verdict.partition(":")[0]) or standing(run),
        "subtitle": _subtitle(run),
        "problems": problems,
        "tiles": _tiles(run),
        "plan": {title: rows for kind, title in _TITLES.items() if (rows := _settings(run, kind))},
        "shims": [row for row in _settings(run) if str(row.get("key")).startswith(_SHIMS)],
        "held_out": evaluation_tables(run),
        "samples": samples,
        "ways": list(dict.fromkeys(sample["ended"] for sample in samples if sample["ended"])),
        "memory": _memory(run),
        "times": _times(run),
        "proofs": mappings(run.record.proofs)[:100],
        "checks": _checks(run),
        "lineage": _lineage(run),
        "versions": versions(run),
    }


def standing(run: ReportedRun) -> str:
    """The status of a run: "completed at step 100 of 100"."""
    listed = run.listed
    line = status_line(RunRecord(status=listed.status, step=listed.step, max_steps=listed.max_steps))
    return f"{line}, according to a changed file" if listed.changed and listed.step is not None else line


def _level(run: ReportedRun, problems: Sequence[RunProblem]) -> str:
    levels = {problem.level for problem in problems}
    if BAD in levels:
        return BAD
    if run.listed.status in ("running", "planned"):
        return WARNING if WARNING in levels else _BUSY
    return WARNING if WARNING in levels or run.listed.status != "completed" else _GOOD


def _subtitle(run: ReportedRun) -> str:
    """The experiment in words."""
    description = mapping(run.plan, "recipe").get("description")
    return run.plain(description) if isinstance(description, str) else ""


def _tiles(run: ReportedRun) -> list[tuple[str, str, str]]:
    """The most important known figures: label, value and note."""
    tiles, figures, listed = [], run.series.figures, run.listed
    if run.series.has("reward"):
        drawn = REWARD_AS_DRAWN if run.series.has(REWARD_AS_DRAWN) else "reward"
        first, last, steps = figures[drawn].ends()
        note = f"first and last {steps} steps" if steps > 1 else "first and last step"
        tiles.append(("Training reward", f"{figure(first, 3)} → {figure(last, 3)}", note))
    if listed.before is not None or listed.after is not None:
        counts, note = mapping(run.record.evaluation, "counts"), "before and after"
        rows, before, after = (number(counts, key) for key in ("rows", "right_before", "right_after"))
        if rows and before is not None and after is not None:
            note = f"right: {before:.0f} → {after:.0f} of {rows:.0f} rows"
        if listed.before is None or listed.after is None:
            note = "before" if listed.after is None else "after"
        ends = [figure(reward, 3) for reward in (listed.before, listed.after) if reward is not None]
        of_set = f", {run.plain(listed.held_out_set)}" if listed.held_out_set else ""
        tiles.append((f"Held-out reward{of_set}", " → ".join(ends), note))
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
        notes = [launches_text(run.record), "" if each is None else f"{figure(each)} s per step"]
        tiles.append(("Time", clock(listed.seconds), ", ".join(filter(None, notes))))
    phases = mappings([*run.record.memory.values()])
    peak = max((size for phase in phases if (size := number(phase, "measured")) is not None), default=None)
    if peak is not None:
        tiles.append(("Peak memory", gib(peak), f"of any process {launches_text(run.record)}".rstrip()))
    return tiles


def _settings(run: ReportedRun, kind: str | None = None) -> list[Mapping[str, Any]]:
    """The rows of the plan, or those of one kind without shims."""
    rows = mappings(run.plan.get("settings"))
    if kind is None:
        return rows
    return [row for row in rows if row.get("kind") == kind and not str(row.get("key")).startswith(_SHIMS)][:_MOST_ROWS]


def _sample(kind: str, completion: KeptCompletion) -> dict[str, Any]:
    row, tokens = completion.row, number(completion.row, "tokens")
    given, images = mapping(row, "rewards"), row.get("images")
    images = images if isinstance(images, list) else []
    return {
        "step": completion.step,
        "kind": kind,
        "prompt": _long_text(row.get("prompt")),
        "completion": _long_text(row.get("completion")),
        "rewards": [(public_text(name, NO_FOLDER), figure(number(given, name))) for name in list(given)[:40]],
        "total": figure(completion.total),
        "advantage": figure(number(row, "advantage")),
        "tokens": "" if tokens is None else f"{tokens:,.0f} token{'s' * (tokens != 1)}",
        "ended": public_text(content_text(row.get("ended"))[:20], NO_FOLDER),
        "images": [image for image in images[:_MOST_IMAGES] if isinstance(image, str) and _BASE64.fullmatch(image)],
    }


def _long_text(value: object) -> str:
    """A text, with its middle cut if it is too long: the end of a completion has its answer."""
    text = content_text(value)
    if len(text) > _LONGEST_TEXT:
        half = _LONGEST_TEXT // 2
        text = f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
    return public_text(text, NO_FOLDER, 2 * _LONGEST_TEXT)


def last_write(run: ReportedRun) -> str:
    """When a run last wrote anything, "" if it never did."""
    at = run.last_time
    if at is None or not 0 < at < time.time() + 1e9:
        return ""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


_MOST_EXAMPLES = 12
_MOST_COLUMNS = 20


def evaluation_tables(run: ReportedRun) -> list[dict[str, Any]]:
    """For each set: the evaluations as a table with intervals, the changes, and rows that became right."""
    known = dict(of_each_set(run.record.evaluation))
    return [_of_set(run, name, events, known.get(name, {})) for name, events in run.evaluations.items()]


def _of_set(run: ReportedRun, name: str, by_step: Mapping[float, Event], known: Mapping[str, object]) -> dict[str, Any]:
    events = [by_step[step] for step in sorted(by_step)]
    blanked = mapping(known, "blanked")
    shown = [(f"{figure(number(event, 'step'))}{', warm start' * (WARM_STEP in event)}", event) for event in events]
    shown += [(f"{figure(number(blanked, 'step'))}, grey images", blanked)] if blanked else []
    cells = [_cells(event) for _, event in shown]
    counts = [figure(number(event, "count")) + run.plain(left_out_text(event)) for _, event in shown]
    names = list(dict.fromkeys(name for cell in cells for name in cell))[:_MOST_COLUMNS]
    return {
        "name": run.plain(name),
        "names": names,
        "rows": [
            (step, count, *(cell.get(name, "") for name in names))
            for (step, _), count, cell in zip(shown, counts, cells, strict=True)
        ],
        "intervals": run.plain(_method(events[-1])) if events else "",
        "changed": run.plain((change_text(events[-1]) or "").replace("  ", ", ")) if events else "",
        "became": _became(known),
        "examples": [
            [run.plain(content_text(example.get(key))) for key in ("prompt", "before", "after")]
            for example in mappings(known.get("examples"))[:_MOST_EXAMPLES]
        ],
    }


def _cells(event: Event) -> dict[str, str]:
    """Each figure of an evaluation by name, with its interval if the event has one."""
    return {
        name: figure(value) + ("" if ends is None else f" ({figure(ends[0])} to {figure(ends[1])})")
        for name, value, ends in figures_of(event)
    }


def _method(event: Event) -> str:
    """The method of the intervals: "95 % intervals by percentile bootstrap over rows"."""
    intervals = mapping(event, "intervals")
    level, method = number(intervals, "level"), intervals.get("method")
    return "" if level is None or not isinstance(method, str) else f"{100 * level:.3g} % intervals by {method}"


def _became(known: Mapping[str, object]) -> str:
    counts = mapping(known, "counts")
    right, wrong = number(counts, "became_right"), number(counts, "became_wrong")
    return "" if right is None or wrong is None else f"{right:.0f} rows became right, {wrong:.0f} became wrong"


def content_text(value: object) -> str:
    """A text, or the text of a conversation's last message."""
    if isinstance(value, list) and value and isinstance(value[-1], Mapping):
        value = value[-1].get("content")
    return value if isinstance(value, str) else ""


_PHASES = ("load", "generate", "score", "update", "sync", "save", "evaluation", "warm_start")


def _memory(run: ReportedRun) -> list[tuple[str, str, str, str]]:
    """Each phase with its peak, the estimate, and their ratio."""
    rows = []
    for phase in _PHASES:
        sizes = mapping(run.record.memory, phase)
        if not sizes:
            continue
        measured, estimated = number(sizes, "measured"), number(sizes, "estimated")
        ratio = "" if not measured or not estimated else f"{measured / estimated:.2f}"
        rows.append((phase, gib(measured), gib(estimated), ratio))
    return rows


def _times(run: ReportedRun) -> list[tuple[str, str]]:
    """How the time was spent, as far as it was measured."""
    record, duration = run.record, run.record.duration or {}
    each = number(duration, "seconds_per_step")
    steps = run.series.figures.get("step_time")
    rows = [
        ("training, elapsed", "" if record.train_wall_s is None else clock(record.train_wall_s)),
        ("training, CPU seconds", "" if record.train_cpu_s is None else figure(record.train_cpu_s)),
        ("a step (median)", "" if each is None else f"{figure(each)} s"),
        *((f"  of which {word}", percent(share)) for word, share in time_shares(record)),
        ("the slowest step", "" if steps is None or not steps.values else f"{figure(max(steps.values))} s"),
        ("warm start", warm_start_text(record)),
        ("all evaluations", f"{figure(run.evaluation_seconds)} s" if run.evaluation_seconds else ""),
        ("launches", str(record.launches) if launches_text(record) else ""),
        ("started", _moment(run.plain(record.started or ""))),
        ("ended", _moment(run.plain(record.ended or ""))),
    ]
    return [(name, text) for name, text in rows if text]


def _moment(text: str) -> str:
    """A time of run.json in the page's format."""
    return text.replace("T", " ").replace("+00:00", " UTC")


def _checks(run: ReportedRun) -> str:
    """The number of values of the live trainer that were compared with the plan."""
    compared = mappings(run.record.checks)
    wrong = sum(check.get("ok") is not True for check in compared)
    if not compared:
        return ""
    return f"{len(compared)} values of the live trainer compared with the plan, " + (
        f"{wrong} of them differ" if wrong else "all as planned"
    )


def _lineage(run: ReportedRun) -> list[str]:
    plan = run.planned
    lines = [] if plan is None else lineage_lines(lineage(plan.ancestor, plan.extends))
    return [run.plain(line) for line in lines]


def versions(run: ReportedRun) -> list[tuple[str, str]]:
    """Packages and GPUs of the stack that the run was planned for."""
    stack = mapping(run.plan, "stack")
    known = {"grpo-recipes": run.plan.get("grpo_recipes"), "python": stack.get("python"), **mapping(stack, "packages")}
    rows = [(run.plain(name), run.plain(value)) for name, value in known.items() if isinstance(value, str)]
    names = [str(gpu.get("name")) for gpu in mappings(stack.get("gpus"))]
    counted = join_parts([f"{names.count(name)} x {run.plain(name)}" for name in dict.fromkeys(names)])
    return [*rows[:100], ("GPUs", counted or "none")]
