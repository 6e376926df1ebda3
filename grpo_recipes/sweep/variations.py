"""Reads `--vary`: a key and the values or range that a sweep tries, as a grid or at random."""

import itertools
import math
import random
import re
from collections.abc import Sequence
from typing import NamedTuple

import yaml

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.yaml.merge import read_override

_RANGE = re.compile(r"(log|uniform|int):(.+?)\.\.(.+)")
_TRIES = 100
"""Draws per missing setting before the remaining ones count as duplicates."""

Assignment = tuple[str, str]
"""A key and the text of its value, as after the = of --set."""
Trial = tuple[Assignment, ...]
"""A setting of a sweep: one value for each key that it varies."""


class ValueRange(NamedTuple):
    """The range that --trials samples; low and high are included. kind: log, uniform, or int for whole numbers."""

    kind: str
    low: float
    high: float


class Varied(NamedTuple):
    """A key, and its values or its range; the other one is empty or None."""

    key: str
    texts: tuple[str, ...]
    drawn_from: ValueRange | None


def read_varied(text: str) -> Varied:
    """The meaning of `--vary KEY=VALUE,VALUE` or `--vary KEY=log:1e-6..1e-4`. Raises Refusal."""
    key, _, written = text.partition("=")
    if not key or not written:
        raise _unreadable(text, "it is not KEY=VALUE,VALUE")
    match = _RANGE.fullmatch(written)
    texts = () if match else tuple(_parts(written))
    if "" in texts:
        raise _unreadable(text, "a value is missing next to a comma; write null for an empty value")
    for value in texts or ("1",):
        override, findings = read_override(f"{key}={value}")
        if override is None:
            raise _unreadable(text, findings[0].message if findings else "it is not a key")
    if key == "seed":
        raise Refusal.of("--vary seed: the seeds of a sweep have a separate option", fix="--seeds 1,2,3")
    if match:
        return Varied(key, (), _range(text, match[1], match[2], match[3]))
    if len(texts) == 1:
        raise Refusal.of(
            f"--vary {text}: there is only one value",
            because="a sweep compares several",
            fix=f"--set {text} for a single value",
        )
    if twice := [value for index, value in enumerate(texts) if value in texts[:index]]:
        raise Refusal.of(f"--vary {text}: {twice[0]} is listed twice", fix="name each value once")
    return Varied(key, texts, None)


def trials_of(varied: Sequence[Varied], trials: int | None, draw: int) -> list[Trial]:
    """The settings of a sweep: all combinations, the last key changing fastest, or a number of random ones.

    trials: None for all combinations. draw: the random seed. Raises Refusal for keys that cannot be combined.
    """
    keys = [axis.key for axis in varied]
    if twice := [key for index, key in enumerate(keys) if key in keys[:index]]:
        raise Refusal.of(f"--vary {twice[0]} is given twice", fix="one --vary for each key, with all its values")
    if trials is not None:
        return _draw_settings(varied, trials, random.Random(draw))
    if ranges := [axis.key for axis in varied if axis.drawn_from is not None]:
        raise Refusal.of(
            f"--vary {ranges[0]}: a range has infinitely many values",
            because="without --trials all combinations of the values are tried",
            fix="--trials 10 draws ten settings, or name the values",
        )
    return [tuple(zip(keys, texts, strict=True)) for texts in itertools.product(*(axis.texts for axis in varied))]


def _draw_settings(varied: Sequence[Varied], trials: int, numbers: random.Random) -> list[Trial]:
    """Distinct settings in the order of drawing. Uses only random(), whose sequence is stable across releases."""
    if not varied:
        raise Refusal.of("--trials draws settings, but nothing is varied", fix="--vary KEY=log:1e-6..1e-4")
    drawn: dict[Trial, None] = {}
    for _ in range(trials * _TRIES):
        drawn[tuple((axis.key, _draw(axis, numbers.random())) for axis in varied)] = None
        if len(drawn) == trials:
            return list(drawn)
    raise Refusal.of(
        f"--trials {trials}: there are fewer settings",
        because=f"{len(drawn)} different settings exist",
        fix=f"--trials {len(drawn)}, or more values",
    )


def _draw(axis: Varied, part: float) -> str:
    """The value at a fraction of the range, 0 to below 1; rounded to three digits, which fit in a name."""
    if axis.drawn_from is None:
        return axis.texts[int(part * len(axis.texts))]
    kind, low, high = axis.drawn_from
    if kind == "int":
        return str(int(low + part * (high - low + 1)))
    value = math.exp(math.log(low) + part * math.log(high / low)) if kind == "log" else low + part * (high - low)
    return f"{value:.3g}"


def _range(text: str, kind: str, low: str, high: str) -> ValueRange:
    try:
        ends = float(low), float(high)
    except ValueError:
        raise _unreadable(text, "its ends are not numbers") from None
    if not all(map(math.isfinite, ends)) or ends[0] >= ends[1] or (kind == "log" and ends[0] <= 0):
        raise _unreadable(text, "the first end has to be below the second" + (", and above 0" if kind == "log" else ""))
    if kind == "int" and not all(end.is_integer() for end in ends):
        raise _unreadable(text, "its ends are not whole numbers")
    return ValueRange(kind, *ends)


def _parts(text: str) -> list[str]:
    """The parts of a text between commas outside of brackets and quotes, as in a YAML list."""
    listed = f"[{text}]"
    try:
        node = yaml.compose(listed, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return [""]
    if not isinstance(node, yaml.SequenceNode) or text.rstrip().endswith(","):
        return [""]
    return [listed[part.start_mark.index : part.end_mark.index] for part in node.value]


def _unreadable(text: str, because: str) -> Refusal:
    fix = "--vary training.learning_rate=1e-5,3e-5, or log:1e-6..1e-4, uniform:0..0.1, int:1..8 with --trials"
    return Refusal.of(f"--vary {text} cannot be read", because=because, fix=fix)
