"""What a preflight saw, as text: figures, examples of prompts, and the table of rewards."""

from collections.abc import Mapping, Sequence
from typing import Any

WIDTH = 12


def preflight_text(shown: Mapping[str, Any]) -> str:
    """The answer below the findings, "" when nothing was seen. shown: as the worker writes it."""
    blocks = [_lines(shown["lines"]), *map(_example, shown["examples"]), _rewards(shown["rewards"])]
    return "\n\n".join(block for block in blocks if block)


def _lines(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"{name:<{WIDTH}}{_plain(text)}" for name, text in lines)


def _example(example: Mapping[str, Any]) -> str:
    head = f"prompt of row {example['row']}"
    lines = [head, *(f"  | {_plain(line)}" for line in example["prompt"].split("\n"))]
    lines += [f"  {case}: {_plain(text)}" for case, text in example["gold"].items()]
    return "\n".join(lines)


def _rewards(rewards: Sequence[Mapping[str, Any]]) -> str:
    """Mean rewards by kind of completion, a column each."""
    cases = list(dict.fromkeys(case for reward in rewards for case in reward["values"]))
    if not cases:
        return ""
    rows = [["reward", "weight", *cases, "time of one"]]
    for reward in rewards:
        values = [_number(reward["values"].get(case), reward) for case in cases]
        rows.append([str(reward["name"]), f"{reward['weight']:g}", *values, _time(reward["seconds"])])
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


def _number(value: float | None, reward: Mapping[str, Any]) -> str:
    if not reward["values"]:
        return "-"
    return "none" if value is None else f"{value:.3g}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds:.2g} s" if seconds >= 0.1 else f"{seconds * 1e3:.2g} ms"


def _plain(text: str) -> str:
    """Without characters that would move the cursor."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
