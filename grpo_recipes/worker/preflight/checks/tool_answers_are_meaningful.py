"""A tool's answers are meaningful, and differ between calls.

What: answers that show an object's memory address (its class has no __str__), that are empty or None, or that exceed
the 64 KiB that the model can get; and a tool that gives different calls the same answer. With preflight's own
arguments, only the first is certain to be a mistake; the others are notes.
Why: TRL gives the model str() of a tool's result. A model that gets the same text for every call learns to call without
reading; a memory address is a different text in every run.
Fix: return the text that the model should read.
Example: tool search gives 3 different calls the same answer: 'no results'
Source: trl 1.16.0 grpo_trainer.py (_tool_call_loop).
"""

import json
import re
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.worker.preflight._shared.reward_seen import cut, fault
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight._shared.tools_seen import ToolCall, by_tool, call_text, place_in_recipe

ID = "PFL032"
AN_ADDRESS = re.compile(r"<[^<>]*\bat 0x[0-9a-f]{6,}[^<>]*>")
CUT = re.compile(r"\n\[cut: (\d+) bytes, of which the model gets 64 KiB\]$")


def check(seen: Seen) -> Iterator[Finding]:
    if seen.tools is None:
        return
    for tool, calls in by_tool(seen.tools).items():
        answered = [call for call in calls if not call.by]
        for wrong, fix in (
            (_object, "return the value, or give its class a __str__"),
            (_nothing, None),
            (_too_long, None),
        ):
            found = next(((call, what) for call in answered if (what := wrong(call)) is not None), None)
            if found is not None:
                yield _fault(seen, tool, f"tool {tool} answers {found[1]}", f"to {call_text(found[0])}", fix)
                break
        else:
            yield from _alike(seen, tool, answered)


def _object(call: ToolCall) -> str | None:
    found = AN_ADDRESS.search(call.text)
    return None if found is None else f"with an object's memory address: {cut(found[0], 80)}"


def _nothing(call: ToolCall) -> str | None:
    return "nothing" if not call.text.strip() else "None" if call.text == "None" else None


def _too_long(call: ToolCall) -> str | None:
    found = CUT.search(call.text)
    return None if found is None else f"with {found[1]} bytes, of which the model gets 64 KiB"


def _alike(seen: Seen, tool: str, calls: list[ToolCall]) -> Iterator[Finding]:
    asked = {json.dumps(call.arguments, sort_keys=True, default=str) for call in calls}
    if len(asked) > 1 and len({call.text for call in calls}) == 1:
        message = f"tool {tool} gives {len(asked)} different calls the same answer: {cut(calls[0].text, 80)!r}"
        yield _fault(seen, tool, message, f"one is {call_text(calls[0])}", None)


def _fault(seen: Seen, tool: str, message: str, because: str, fix: str | None) -> Finding:
    assert seen.tools is not None
    severe = seen.tools.scripted or "object" in message
    return fault(
        "warning" if severe else "note", message, place_in_recipe(seen.plan, tool), because=(because,), fix=fix
    )
