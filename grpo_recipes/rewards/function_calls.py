"""The share of the expected function calls that a completion makes."""

import json
import re
from collections import Counter

from grpo_recipes.rewards.completion_text import Completion, completion_json, completion_text

TAGGED = re.compile(r"<tool_call>(.*?)</tool_call>", re.S)


def function_calls(completions: list[Completion], *, solution: list[object], **kwargs: object) -> list[float | None]:
    """Gives 1.0 for exactly the wanted calls in any order, less for a share of them, and 0.0 for none.

    A call is {"name": ..., "arguments": {...}}, and is right if both are equal. The calls of a completion are each in
    <tool_call>...</tool_call>, or JSON, one or a list of them, also fenced. With tools they are the calls actually
    made, in all turns; a completion that called none is read as text. The share is of the calls made or wanted,
    whichever are more.
    solution: the wanted calls as a JSON text or its value; a row without any gets None, that is, no reward.
    """
    return [_share(given, wanted) for given, wanted in zip(completions, solution, strict=True)]


def _share(completion: Completion, solution: object) -> float | None:
    try:
        wanted = _calls(json.loads(solution) if isinstance(solution, str) else solution)
    except (ValueError, RecursionError):
        return None
    if not wanted:
        return None
    try:
        made = _calls(_calls_of_messages(completion) or _read_calls(completion_text(completion)))
    except (ValueError, RecursionError):
        return 0.0
    return (wanted & made).total() / max(wanted.total(), made.total())


def _calls_of_messages(completion: Completion) -> list[object]:
    """The tool calls in the messages of a completion, which TRL parsed from the text."""
    messages = [] if isinstance(completion, str) else completion
    calls = [call for message in messages if message.get("role") != "tool" for call in message.get("tool_calls") or ()]
    return [call.get("function", call) if isinstance(call, dict) else call for call in calls]


def _read_calls(text: str) -> object:
    tagged = TAGGED.findall(text)
    return [json.loads(call) for call in tagged] if tagged else completion_json(text)


def _calls(value: object) -> Counter[str]:
    """Each call as a text that is the same for equal calls. Raises ValueError for anything but calls."""
    counts: Counter[str] = Counter()
    for call in value if isinstance(value, list) else [value]:
        if not (isinstance(call, dict) and isinstance(call.get("name"), str)):
            raise ValueError("a call has a name")
        arguments = call.get("arguments", call.get("parameters", {}))
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
        counts[json.dumps([call["name"], arguments], sort_keys=True)] += 1
    return counts
