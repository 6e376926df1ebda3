"""Reads metrics.jsonl, one JSON object per line, also while a run is writing it."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from grpo_recipes.contract.files.bounded_json import parse_json
from grpo_recipes.contract.files.folder_files import open_to_read
from grpo_recipes.contract.metric_names import (
    ENTROPY,
    GROUPS_WITHOUT_VARIANCE,
    KL,
    MEAN_LENGTH,
    REWARD_AS_DRAWN,
    TRL_WITHOUT_VARIANCE,
)

METRICS_FILE = "metrics.jsonl"
COMPLETIONS_FILE = "completions.jsonl"
"""Read as metrics.jsonl; see worker/completions/kept_completions.py."""
LEAST_STEPS, MOST_AVERAGED = 8, 50
LEAST_ALIKE, MOST_ALIKE = 0.1, 0.5
"""The assumed range of the correlation between consecutive steps; real runs have 0 to 0.4."""
OF_TRAINING = ("reward", MEAN_LENGTH, ENTROPY, KL, GROUPS_WITHOUT_VARIANCE)
REWARDS = "rewards/"
WITHOUT = "without"
BEST = 0.995
"""The share of right rows above which nothing is left to gain."""
ROUNDED = 1e-6
"""The largest standard deviation that float32 gives to equal values, in their size."""
LARGEST = 1 << 30
_PART = 16 << 20
_PARTS_AT_ONCE = 16
Event = Mapping[str, object]


def read_new(path: str, offset: int, parts: int = _PARTS_AT_ONCE) -> tuple[list[Event], int]:
    """The events after byte `offset`, and the next offset; a line without its end is left for the next call.

    A missing file has no events; a file that became shorter is read from the start. Other JSON and lines of 16 MiB are
    skipped. Reads at most `parts` blocks of 16 MiB at once, and nothing of a file of more than one GiB.
    """
    events: list[Event] = []
    try:
        with open_to_read(Path(path).parent, Path(path).name, LARGEST) as file:
            if file.seek(0, 2) < offset:
                offset = 0
            for _ in range(parts):
                file.seek(offset)
                content = file.read(_PART)
                complete = content[: content.rfind(b"\n") + 1]
                if not complete and len(content) < _PART:
                    break
                offset += len(complete or content)
                events += [event for event in map(_event, complete.splitlines()) if event is not None]
    except FileNotFoundError:
        return [], 0
    except OSError:
        pass  # the disk fails; the end of the run says more
    return events, offset


def read_all(path: str) -> Iterator[Event]:
    """Iterates over the events of a file as read_new reads them; only one block is in memory at a time."""
    offset, before = 0, -1
    while offset != before:
        before = offset
        events, offset = read_new(path, offset, parts=1)
        yield from events


def read_tail(folder: Path, name: str, most: int) -> Iterator[Event | None]:
    """The events in the last bytes of a file, newest first; None for a line that is not an event."""
    try:
        with open_to_read(folder, name) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - most))
            lines = file.read(most).split(b"\n")
    except OSError:
        return
    yield from map(_event, filter(None, reversed(lines[1 if size > most else 0 : -1])))


def _event(line: bytes) -> Event | None:
    try:
        value = parse_json(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def number(event: Mapping[str, object], key: str) -> float | None:
    """A finite number of an event, None if it is missing or something else."""
    value = event.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < float("inf") else None


def mapping(event: Mapping[str, object], key: str) -> Mapping[str, object]:
    """The mapping under a key of an event, empty if there is none."""
    value = event.get(key)
    return value if isinstance(value, Mapping) else {}


def mappings(values: object) -> list[Mapping[str, object]]:
    """The mappings in a list; other items are skipped."""
    return [value for value in values if isinstance(value, Mapping)] if isinstance(values, list) else []


def reward_as_drawn(event: Mapping[str, object]) -> float | None:
    """The mean reward of a generation before any redrawing, which shows how well the policy answers."""
    drawn = number(event, REWARD_AS_DRAWN)
    return number(event, "reward") if drawn is None else drawn


def without_variance(event: Mapping[str, object]) -> float | None:
    """The share of groups without variance; TRL's own figure for runs of older workers, which had no other."""
    own = number(event, GROUPS_WITHOUT_VARIANCE)
    return number(event, TRL_WITHOUT_VARIANCE) if own is None else own


def evaluation_text(event: Mapping[str, object]) -> str:
    """The figures of an evaluation on one line, with their intervals and the number of rows."""
    figures = list(figures_of(event))
    parts = [f"{name} {figure(value, interval)}" for name, value, interval in figures]
    rows = number(event, "count")
    if rows is not None:
        samples = number(event, "samples")
        each = "" if samples is None else f", {samples:.0f} completions each"
        has_intervals = any(interval is not None for _, _, interval in figures)
        level = number(mapping(event, "intervals"), "level") if has_intervals else None
        each += left_out_text(event)
        parts.append(f"({rows:.0f} rows{each}{'' if level is None else f', {level:.0%} intervals'})")
    return "  ".join(parts)


def left_out_text(event: Mapping[str, object]) -> str:
    """What the means of an evaluation leave out: ", 3 completions without any reward, so not counted"; or ""."""
    ends = {"without_score": " a judge's score, so not compared", "without_reward": " any reward, so not counted"}
    counts = [(number(event, key), end) for key, end in ends.items()]
    counts += [(number(mapping(event, WITHOUT), name), f" {name}") for name in mapping(event, WITHOUT)]
    return "".join(f", {count:.0f} completion{'s' * (count != 1)} without{end}" for count, end in counts if count)


def of_set(event: Mapping[str, object], before: str = " ") -> str:
    """The name of the held-out set that figures belong to, after a space; "" for a set without a name."""
    return f"{before}{event['set']}" if isinstance(event.get("set"), str) else ""


def change_text(event: Mapping[str, object]) -> str | None:
    """The changes of an evaluation's figures since step 0, with intervals; None if they are unknown."""
    figures = figures_of(mapping(event, "change"))
    shown = [f"{name} {figure(value, interval, '+.4g')}" for name, value, interval in figures]
    return "  ".join(shown) or None


def figures_of(event: Mapping[str, object]) -> Iterator[tuple[str, float, tuple[float, float] | None]]:
    """Name, value and interval of each known figure of an evaluation or change: reward, each reward, pass@k."""
    intervals = mapping(event, "intervals")
    reward = {"reward": event.get("reward")}
    for values, ends, prefix in (
        (reward, intervals, ""),
        (mapping(event, "rewards"), mapping(intervals, "rewards"), ""),
        (mapping(event, "pass_at"), mapping(intervals, "pass_at"), "pass@"),
    ):
        for name in values:
            if (value := number(values, name)) is not None:
                yield f"{prefix}{name}", value, _ends(ends.get(name))


def figure(value: float, interval: tuple[float, float] | None, shape: str = ".4g") -> str:
    """A value with its interval: 0.5575 [0.5264, 0.5883]."""
    ends = "" if interval is None else f" [{interval[0]:{shape}}, {interval[1]:{shape}}]"
    return f"{value:{shape}}{ends}"


def _ends(interval: object) -> tuple[float, float] | None:
    if not isinstance(interval, list | tuple) or len(interval) != 2:
        return None
    ends = dict(zip(("low", "high"), interval, strict=True))
    low, high = number(ends, "low"), number(ends, "high")
    return None if low is None or high is None else (low, high)


def is_at_best(evaluation: Mapping[str, object]) -> bool:
    """Whether an evaluation leaves nothing to gain: all completions pass, or every reward of each row is 1."""
    if left_out_text(evaluation):
        return False
    if (passed := number(mapping(evaluation, "pass_at"), "1")) is not None:
        return passed >= BEST
    # A mean of 1 means that all are right only if no row has more or less.
    rewards = [reward for reward in figures_of(evaluation) if reward[0] in mapping(evaluation, "rewards")]
    return bool(rewards) and all(value == 1 and ends == (1, 1) for _, value, ends in rewards)


def right_text(evaluation: Mapping[str, object]) -> str:
    """What is right in an evaluation at its best: "all 200 held-out rows"."""
    rows, passed = number(evaluation, "count"), number(mapping(evaluation, "pass_at"), "1")
    of = "held-out rows" if rows is None else f"{rows:.0f} held-out rows"
    return f"all {of}" if passed in (None, 1) else f"{passed:.1%} of the completions of {of}"


def trends(events: Iterable[Event]) -> dict[str, object]:
    """First and last value of each figure that shows whether a training made progress, and the standard error.

    Each is the mean of a quarter of the steps, at most 50; {} for fewer than 8 steps. A reward that no completion got
    has the number of steps alone. This is `trend` in run.json.
    """
    columns, steps = dict[str, list[float]](), Counter[str]()
    for event in events:
        if event.get("event", "step") == "step" and number(event, "reward") is not None:
            for name in (*OF_TRAINING, *(key for key in event if key.startswith(REWARDS))):
                value = reward_as_drawn(event) if name == "reward" else number(event, name)
                steps[name] += is_mean_of_reward(name)
                if value is not None:
                    columns.setdefault(name, []).append(value)
    figures = {name: _trend(values) for name, values in columns.items() if len(values) >= LEAST_STEPS}
    known: dict[str, object] = {name: each for name, each in figures.items() if all(map(math.isfinite, each.values()))}
    empty = {name: {"steps": count} for name, count in steps.items() if count >= LEAST_STEPS and name not in columns}
    return known | empty


def is_mean_of_reward(key: str) -> bool:
    """Whether a figure of a step is the mean of a single reward."""
    return key.startswith(REWARDS) and key.endswith("/mean")


def missing_rewards(trend: Mapping[str, object]) -> list[str]:
    """The rewards that no completion got: ["style was None"]."""
    names = [name for name in trend if is_mean_of_reward(name) and "first" not in mapping(trend, name)]
    return [f"{name.removeprefix(REWARDS).removesuffix('/mean')} was None" for name in names]


def constant_rewards(trend: Mapping[str, object]) -> list[str]:
    """The rewards of several that gave every completion the same value: ["accuracy was 0"].

    Releases of TRL that log no standard deviation show none: a mean may stay the same while its values vary.
    """
    constants, means = [], list(filter(is_mean_of_reward, trend))
    for name in means if len(means) > 1 else ():
        reward = name.removeprefix(REWARDS).removesuffix("/mean")
        mean, spread = mapping(trend, name), mapping(trend, f"{REWARDS}{reward}/std")
        figures = [number(mean, "error"), *(number(spread, key) for key in ("first", "last", "error"))]
        value = number(mean, "first") or 0.0
        if all(figure is not None and figure <= ROUNDED * max(1.0, abs(value)) for figure in figures):
            constants.append(f"{reward} was {value:.4g}")
    return constants


def _trend(values: Sequence[float]) -> dict[str, float]:
    """The trend of one figure; its error assumes that each step resembles the one before it.

    Differences between neighbours are noise, whatever the curve does. If steps are correlated, the differences grow
    with distance, and a mean is less certain than one of as many independent draws.
    """
    count = min(MOST_AVERAGED, len(values) // 4)
    near, far = (
        sum((later - old) * (later - old) for old, later in zip(values, values[by:], strict=False)) / (len(values) - by)
        for by in (1, 2)
    )
    alike = min(MOST_ALIKE, max(LEAST_ALIKE, far / near - 1)) if near > 0 else 0.0
    error = math.sqrt(near / count * (1 + alike)) / (1 - alike)
    return {"first": sum(values[:count]) / count, "last": sum(values[-count:]) / count, "error": error, "steps": count}
