"""Filters and sorts runs, finds the values in which they differ, and formats them as a table and as JSON."""

import fnmatch
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from grpo_recipes.contract.event_words import clock
from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.findings.wording import (
    align_rows,
    cells,
    flow,
    join_items,
    nearest_words,
    one_line,
    value_text,
)
from grpo_recipes.contract.secrets.redact import hide_secrets, redact_value
from grpo_recipes.report.runs.run_row import ListedRun, Runs

_MOST_KEYS = 12
_LONGEST_VALUE = 24
_SHORTEST_NAME = 12
_NAMED_OTHERS = 10


class Table(NamedTuple):
    """The table of runs. text: the lines, each with its newline. left_out: the headings that did not fit."""

    text: str
    left_out: tuple[str, ...]


class _Column(NamedTuple):
    """A column of the table. rank: columns of rank 0 are dropped last."""

    heading: str
    cells: list[str]
    rank: int
    is_figure: bool = True


def runs_table(runs: Sequence[ListedRun], keys: Sequence[str], width: int) -> Table:
    """A line for each run, with the columns that fit the width."""
    headings = _headings(keys)
    values = [
        _Column(headings[key], [_cell(key, run) for run in runs], 3 if index == 0 else 6 + index, is_figure=False)
        for index, key in enumerate(keys[:_MOST_KEYS])
    ]
    states, verdicts = [_status(run) for run in runs], [_verdict(run) for run in runs]
    shares = [next((f"{share:.0%} {part}" for part, share in run.time_shares), "-") for run in runs]
    columns = [
        _Column("name", [one_line(hide_secrets(run.name)) for run in runs], 0, is_figure=False),
        _Column("status", states, 1, is_figure=False),
        _Column("step", [_step(run) for run in runs], 4),
        _Column("reward", [_figure(run.reward) for run in runs], 2),
        _Column("held out", [_evaluation(run) for run in runs], 5),
        *([_Column("verdict", verdicts, 3, is_figure=False)] if any(run.verdict for run in runs) else []),
        _Column("time", ["-" if run.seconds is None else clock(run.seconds) for run in runs], 6),
        *([_Column("most of it", shares, 8, is_figure=False)] if any(run.time_shares for run in runs) else []),
        *values,
    ]
    left_out = [headings[key] for key in keys[_MOST_KEYS:]]
    if _width(columns) > width:
        # Only a completed run has a verdict, so one column suffices for both.
        ends = [state.replace("completed", verdict, 1) for state, verdict in zip(states, verdicts, strict=True)]
        ends = [end if run.verdict else state for run, state, end in zip(runs, states, ends, strict=True)]
        columns = [column._replace(cells=ends) if column.heading == "status" else column for column in columns]
        columns = [column for column in columns if column.heading != "verdict"]
    while len(columns) > 2 and _width(columns) > width:
        least = max(columns, key=lambda column: column.rank)
        columns.remove(least)
        left_out.insert(0, least.heading)
    if (over := _width(columns) - width) > 0:
        room = max(_SHORTEST_NAME, _wide(columns[0]) - over)
        columns[0] = columns[0]._replace(cells=[_shorten(cell, room) for cell in columns[0].cells])
    rows = zip(*([column.heading, *column.cells] for column in columns), strict=True)
    lines = align_rows(rows, right=[index for index, column in enumerate(columns) if column.is_figure])
    return Table("".join(f"{line}\n" for line in lines), tuple(left_out))


def runs_json(listing: Runs, runs: Sequence[ListedRun], keys: Sequence[str]) -> str:
    """The runs as JSON, with the values in which their plans differ."""
    rows = [
        {
            **run._asdict(),
            "because": list(run.because),
            "values": {key: run.values.get(key) for key in keys},
            "changed": list(run.changed),
        }
        for run in runs
    ]
    content = {"folder": listing.folder, "differing": list(keys), "runs": rows, "others": dict(listing.others)}
    return json.dumps(redact_value(content), indent=2)


def others_text(others: Mapping[str, str]) -> str:
    """The folders that are not runs, a line for each reason."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in others.items():
        by_reason.setdefault(reason, []).append(one_line(name))
    return "".join(f"not a run: {join_items(those, _NAMED_OTHERS)} ({reason})\n" for reason, those in by_reason.items())


def damage_text(runs: Sequence[ListedRun]) -> str:
    """Why runs are shown as damaged or changed, one per line."""
    because = [(run, run.because if run.status.startswith("damaged") else run.changed) for run in runs]
    return "".join(f"{one_line(run.name)}: {one_line('; '.join(lines))}\n" for run, lines in because if lines)


def _headings(keys: Sequence[str]) -> dict[str, str]:
    """The last part of each key if it is unique, else the whole key."""
    last = [key.rpartition(".")[2] for key in keys]
    return {key: end if last.count(end) == 1 and len(end) > 4 else key for key, end in zip(keys, last, strict=True)}


def _status(run: ListedRun) -> str:
    because = f" ({', '.join(run.because[:2])})" if run.because and not run.status.startswith("damaged") else ""
    changed = ", changed" if run.changed and not run.status.startswith("damaged") else ""
    return _shorten(one_line(f"{run.status}{because}{changed}"), 40)


def _step(run: ListedRun) -> str:
    if run.step is None:
        return "-" if run.max_steps is None else f"-/{run.max_steps}"
    return str(run.step) if run.max_steps is None else f"{run.step}/{run.max_steps}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if abs(value) < 1e6 else f"{value:.3g}"


def _evaluation(run: ListedRun) -> str:
    if run.before is None and run.after is None:
        return "-"
    of_set = f"{run.held_out_set}: " if run.held_out_set else ""
    return f"{of_set}{_figure(run.before)} -> {_figure(run.after)}"


def _verdict(run: ListedRun) -> str:
    return one_line(run.verdict.partition(":")[0]) or "-"


def _cell(key: str, run: ListedRun) -> str:
    return _value_text(key, json.dumps(run.values[key])) if key in run.values else "-"


@cache
def _value_text(key: str, value: str) -> str:
    """A short value without secrets, cached since thousands of runs share few values."""
    redacted = redact_value({key: json.loads(value)})
    only = next(iter(redacted.values())) if isinstance(redacted, dict) else None
    text = (
        only if isinstance(only, str) else value_text(only, 10_000) if not isinstance(only, dict | list) else flow(only)
    )
    return _shorten(one_line(text), _LONGEST_VALUE)


def _shorten(text: str, room: int) -> str:
    """The text, with its middle cut if it is too wide."""
    if cells(text) <= room:
        return text
    start, end = text, text
    while cells(start) > (room - 3) // 2:
        start = start[:-1]
    while cells(end) > room - 3 - (room - 3) // 2:
        end = end[1:]
    return f"{start}...{end}"


def _wide(column: _Column) -> int:
    return max(map(cells, [column.heading, *column.cells]))


def _width(columns: Sequence[_Column]) -> int:
    return sum(_wide(column) + 2 for column in columns) - 2


_DIGESTS = (".sha256", ".commit")
# Sort keys, best or newest first; names and values of plans ascend.
FIGURES: dict[str, Callable[[ListedRun], object]] = {
    "started": lambda run: run.at,
    "step": lambda run: run.step,
    "reward": lambda run: run.reward,
    "held_out": lambda run: run.after if run.after is not None else run.before,
    "time": lambda run: run.seconds,
}
TEXTS: dict[str, Callable[[ListedRun], object]] = {"name": lambda run: run.name, "status": lambda run: run.status}


def differing(runs: Sequence[ListedRun]) -> list[str]:
    """The keys whose planned values differ between the runs that have a plan, those of the experiment first.

    A digest that one of them lacks is not compared.
    """
    planned = [run.values for run in runs if run.values]
    keys = list(dict.fromkeys(key for values in planned for key in values))
    return [key for key in keys if _differs([values.get(key) for values in planned], key.endswith(_DIGESTS))]


def _differs(values: Sequence[object], is_digest: bool) -> bool:
    first = next((value for value in values if value is not None), None)
    # Most values are the same in all runs; true is not 1.
    others = [value for value in values if value != first or type(value) is not type(first)]
    if is_digest:
        return any(value is not None for value in others)
    return len({json.dumps(value, sort_keys=True) for value in (first, *others)}) > 1


def sort_runs(runs: Sequence[ListedRun], key: str) -> list[ListedRun]:
    """The runs sorted by a figure, a text or a planned value; those without one last. Raises Refusal."""
    if key in FIGURES:
        of, highest_first = FIGURES[key], True
    elif key in TEXTS:
        of, highest_first = TEXTS[key], False
    else:
        of, highest_first = _value_of(runs, key, "--sort", [*FIGURES, *TEXTS]), False
    having = sorted((run for run in runs if of(run) is not None), key=lambda run: _rank(of(run)), reverse=highest_first)
    return having + [run for run in runs if of(run) is None]


def _rank(value: object) -> tuple[bool, float, str]:
    """Sorts numbers before texts."""
    if isinstance(value, int | float):
        return (False, value, "")
    return (True, 0, value if isinstance(value, str) else json.dumps(value, sort_keys=True))


def filter_runs(runs: Sequence[ListedRun], filters: Sequence[str]) -> list[ListedRun]:
    """The runs that pass all filters. Raises Refusal for a filter that cannot be read."""
    passing = list(runs)
    for text in filters:
        passes = _filter(runs, text)
        passing = [run for run in passing if passes(run)]
    return passing


def _filter(runs: Sequence[ListedRun], text: str) -> Callable[[ListedRun], bool]:
    key, equals, asked = text.partition("=")
    if not equals:
        return lambda run: fnmatch.fnmatchcase(run.name, text)
    if key in TEXTS:
        return lambda run: fnmatch.fnmatchcase(str(TEXTS[key](run)), asked)
    of, wanted = _value_of(runs, key, "--filter", list(TEXTS)), _read(text, asked)
    return lambda run: bool(run.values) and _is(of(run), wanted, asked)


def _read(text: str, asked: str) -> object:
    """The value as `--set` reads it."""
    from grpo_recipes.yaml.merge import read_override

    override, findings = read_override(text)
    if override is None:
        because = findings[0].message if findings else "it is not KEY=VALUE"
        raise Refusal.of(f"--filter {text} cannot be read", because=because, fix="--filter grpo.beta=0.04")
    return override.value.value if asked else ""


def _is(value: object, wanted: object, asked: str) -> bool:
    if isinstance(value, str):
        return fnmatch.fnmatchcase(value, asked)
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    return value == wanted


def _value_of(runs: Sequence[ListedRun], key: str, option: str, others: Sequence[str]) -> Callable[[ListedRun], object]:
    """A function that gets a key's value from a run; the last part of a key suffices if it is unique."""
    known = list(dict.fromkeys(key for run in runs for key in run.values))
    if key not in known and runs:
        from grpo_recipes.schemas.fast_accept import recipe_keys

        ending = [known_key for known_key in known if known_key.rpartition(".")[2] == key]
        if len(ending) == 1:
            key = ending[0]
        elif ending:
            raise Refusal.of(f"{option}: several keys end in {key}", fix=f"{option} with one of {', '.join(ending)}")
        elif key not in recipe_keys():
            near = nearest_words(key, [*others, *known, *recipe_keys()], cutoff=0.6)
            fix = f"{option} with {near[0]}" if near else f"{', '.join(others)}, or a key of a recipe"
            raise Refusal.of(f"{option}: there is no {key!r} in these runs", fix=fix)
    name = key
    return lambda run: run.values.get(name)
