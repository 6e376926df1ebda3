"""A tool's answers are meaningful, and differ between calls.

What: answers that show an object's memory address (its class has no __str__), that are empty or None, or that exceed
the 64 KiB that the model can get; a tool that gives different calls the same answer; and scripted turns whose final
message has numbers of which the tools answered none (a note). With preflight's own arguments, only the first is certain
to be a mistake; the others are notes. An argument whose description has an example ("such as Paris") is also tried with
it, and a tool that answers this like a made-up word is a warning.
Why: TRL gives the model str() of a tool's result. A model that gets the same text for every call learns to call without
reading; a memory address is a different text in every run.
Fix: return the text that the model should read.
Example: tool search gives 3 different calls the same answer: 'no results'
Source: trl's grpo_trainer.py (_tool_call_loop).
"""

import json
import re
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, mistake, note
from grpo_recipes.worker.preflight._shared.reward_seen import cut
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight._shared.tools_seen import ToolCall, ToolsSeen, by_tool, call_text, place_in_recipe

ID = "PFL032"
NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?")
AN_ADDRESS = re.compile(r"<[^<>]*\bat 0x[0-9a-f]{6,}[^<>]*>")
CUT = re.compile(r"\n\[cut: (\d+) bytes, of which the model gets 64 KiB\]$")


def check(inputs: Seen) -> Iterator[Finding]:
    if inputs.tools is None:
        return
    yield from _other_numbers(inputs, inputs.tools)
    for tool, calls in by_tool(inputs.tools).items():
        answered = [call for call in calls if not call.by]
        for wrong, fix in (
            (_object, "return the value, or give its class a __str__"),
            (_nothing, None),
            (_too_long, None),
        ):
            oddity = next(((call, what) for call in answered if (what := wrong(call)) is not None), None)
            if oddity is not None:
                yield _fault(inputs, tool, f"tool {tool} answers {oddity[1]}", f"to {call_text(oddity[0])}", fix)
                break
        else:
            yield from _alike(inputs, tool, answered)


def _object(call: ToolCall) -> str | None:
    match = AN_ADDRESS.search(call.text)
    return None if match is None else f"with an object's memory address: {cut(match[0], 80)}"


def _nothing(call: ToolCall) -> str | None:
    return "nothing" if not call.text.strip() else "None" if call.text == "None" else None


def _too_long(call: ToolCall) -> str | None:
    match = CUT.search(call.text)
    return None if match is None else f"with {match[1]} bytes, of which the model gets 64 KiB"


def _alike(inputs: Seen, tool: str, calls: list[ToolCall]) -> Iterator[Finding]:
    asked = {json.dumps(call.arguments, sort_keys=True, default=str) for call in calls}
    if len(asked) > 1 and len({call.text for call in calls}) == 1:
        is_example = any(call.is_example for call in calls)
        message = f"tool {tool} gives {len(asked)} different calls the same answer: {cut(calls[0].text, 80)!r}"
        because = f"one is {call_text(calls[0])}" + (", an example of its description" if is_example else "")
        yield _fault(inputs, tool, message, because, None, is_certain=is_example)


def _other_numbers(inputs: Seen, tools: ToolsSeen) -> Iterator[Finding]:
    """Yields a scripted final message whose numbers are in no answer, although tools answered with numbers."""
    answers = " ".join(call.text for call in tools.turns if not call.by)
    stated, answered = _numbers(tools.answer or ""), _numbers(answers)
    if tools.scripted and stated and answered and stated.isdisjoint(answered):
        yield note(
            f"the turns end with {cut(tools.answer or '', 40)!r}, and tools answered {cut(answers, 80)!r}",
            ("preflight", "turns"),
            because="no number of the final message is in an answer",
            fix="none if the message is calculated from the answers; else compare the tool with its description",
        )


def _numbers(text: str) -> set[float]:
    return {float(number.replace(",", "")) for number in NUMBER.findall(text)}


def _fault(inputs: Seen, tool: str, message: str, because: str, fix: str | None, is_certain: bool = False) -> Finding:
    assert inputs.tools is not None
    severe = is_certain or inputs.tools.scripted or "object" in message
    return mistake(
        message, place_in_recipe(inputs.plan, tool), because=because, fix=fix, severity="warning" if severe else "note"
    )
