"""The calls that a recipe has a preflight make: to a tool that runs code, their texts are code."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import ScriptedTurn
from grpo_recipes.trust.code import MOST_NAMES, TURNS, CodePart
from grpo_recipes.trust.user_code import made_with

_SHOWN_CHARACTERS = 160


def turn_parts(plan: Plan) -> list[CodePart]:
    """The calls with texts, as one part; none where there are no such.

    Its digest is that of the calls and of the code that they call: what is harmless to one tool is not to another.
    """
    calls = [
        turn for turn in plan.scripted_turns if turn.tool is not None and any(_texts(list(turn.arguments.values())))
    ]
    if not calls:
        return []
    code = sorted(f"{file.kind} {file.name} {file.digests}" for file in made_with(plan))
    text = json.dumps([[[turn.tool, turn.arguments] for turn in calls], code], sort_keys=True)
    shown = [_shown(turn) for turn in calls[:MOST_NAMES]]
    more = [f"and {len(calls) - MOST_NAMES} more"] if len(calls) > MOST_NAMES else []
    return [CodePart(TURNS, "; ".join([*shown, *more]), hashlib.sha256(text.encode()).hexdigest())]


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value of YAML, also in keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _texts([*value, *value.values()])
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _shown(turn: ScriptedTurn) -> str:
    """A call as a line, escaped; of a long one its beginning and its end."""
    text = f"{json.dumps(turn.tool)[1:-1]}({json.dumps(turn.arguments)})"
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    half = _SHOWN_CHARACTERS // 2
    return f"{text[:half]} [{len(text) - 2 * half} characters more] {text[-half:]}"
