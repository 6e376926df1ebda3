"""What a preflight saw, as text: figures, examples of prompts, and the table of rewards."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_recipes.contract.findings.wording import aligned, one_line

WIDTH = 12


def preflight_text(shown: Mapping[str, Any]) -> str:
    """The answer below the findings, "" when nothing was seen. shown: as the worker writes it."""
    blocks = [
        _lines(shown["lines"]),
        *map(_tool, shown["tools"]),
        *map(_example, shown["examples"]),
        _played(shown["played"]),
        _rewards(shown["rewards"]),
    ]
    return "\n\n".join(block for block in blocks if block)


def _lines(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"{name:<{WIDTH}}{one_line(text)}" for name, text in lines)


def _example(example: Mapping[str, Any]) -> str:
    head = f"prompt of row {example['row']}"
    lines = [head, *(f"  | {one_line(line)}" for line in example["prompt"].split("\n"))]
    lines += [f"  {case}: {one_line(text)}" for case, text in example["gold"].items()]
    return "\n".join(lines)


def _tool(tool: Mapping[str, Any]) -> str:
    """A tool as it is described to the model; nothing if it cannot be described."""
    if tool["schema"] is None:
        return ""
    text = json.dumps(tool["schema"], indent=1, ensure_ascii=False)
    return "\n".join([f"tool {one_line(tool['name'])}", *(f"  | {one_line(line)}" for line in text.split("\n"))])


def _played(played: Mapping[str, Any] | None) -> str:
    """The calls that were made, each with its answer and its time, and what the completion is worth."""
    if played is None or not played["calls"]:
        return ""
    how = "preflight.turns" if played["scripted"] else "made of the tools"
    tokens = "" if played["tokens"] is None else f", {played['tokens']} tokens"
    lines = [f"played on row {played['row']} ({how}{tokens})"]
    beside = [call for call in played["calls"] if not call["turn"]]
    lines += [line for call in played["calls"] if call["turn"] for line in _call(call)]
    if played["answer"] is not None:
        lines.append(f"  says {one_line(played['answer'])}")
    lines += [f"  reward {one_line(name)}: {_value(value)}" for name, value in played["rewards"].items()]
    if beside:
        lines += ["  tried beside it", *(line for call in beside for line in _call(call))]
    return "\n".join(lines)


def _call(call: Mapping[str, Any]) -> list[str]:
    arguments = ", ".join(f"{name}={value!r}" for name, value in call["arguments"].items())
    first, *rest = call["answer"].split("\n")
    told = [one_line(first), *(f"    {one_line(line)}" for line in rest)]
    failed = "failed, " if call["failed"] else ""
    return [
        f"  {one_line(call['tool'])}({one_line(arguments)}) -> {told[0]}  ({failed}{_time(call['seconds'])})",
        *told[1:],
    ]


def _value(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


def _rewards(rewards: Sequence[Mapping[str, Any]]) -> str:
    """Mean rewards by kind of completion, a column each."""
    cases = list(dict.fromkeys(case for reward in rewards for case in reward["values"]))
    if not cases:
        return ""
    rows = [["reward", "weight", *cases, "time of one"]]
    for reward in rewards:
        values = [_number(reward["values"].get(case), reward) for case in cases]
        rows.append([str(reward["name"]), f"{reward['weight']:g}", *values, _time(reward["seconds"])])
    return "\n".join(aligned(rows))


def _number(value: float | None, reward: Mapping[str, Any]) -> str:
    if not reward["values"]:
        return "-"
    return _value(value)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds:.2g} s" if seconds >= 0.1 else f"{seconds * 1e3:.2g} ms"
