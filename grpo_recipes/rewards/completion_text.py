"""The text of a completion, whichever of TRL's two shapes it has."""

import json
import re

Completion = str | list[dict[str, str]]


def completion_text(completion: Completion) -> str:
    """Returns the text of a plain completion, or of the last message of the model in a conversational one.

    With tools a completion is several messages: what the model said before a call is no answer, and what a tool
    replied is not the model's. A call without an answer behind it counts as what it says beside the call, mostly empty.
    """
    if isinstance(completion, str):
        return completion
    own = [message for message in completion if message.get("role") != "tool"]
    return (own[-1].get("content") or "") if own else ""


_ANSWER_TAG = re.compile(r"<answer>(.*?)</answer>", re.S)


def tagged_answer(text: str) -> str | None:
    """What stands in the last <answer>...</answer>, None without one."""
    found = _ANSWER_TAG.findall(text)
    return str(found[-1]).strip() if found else None


FENCED = re.compile(r"```(?:json|JSON)?[ \t]*\n(.*?)```", re.S)


def completion_json(text: str) -> object:
    """The value of the JSON. Raises ValueError where there is none; NaN and Infinity are not JSON."""
    fenced = FENCED.search(text)
    try:
        return json.loads(fenced.group(1) if fenced else text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
