"""The text of a completion in either of TRL's two forms."""

import json
import math
import re

Completion = str | list[dict[str, str]]


def completion_text(completion: Completion) -> str:
    """Returns the text of a plain completion, or of the last message of the model in a conversational one.

    With tools a completion has several messages: text before a call is not the answer, and tool replies are not the
    model's. A call without an answer after it counts as the text next to the call, which is usually empty.
    """
    if isinstance(completion, str):
        return completion
    own = [message for message in completion if message.get("role") != "tool"]
    return (own[-1].get("content") or "") if own else ""


_ANSWER_TAG = re.compile(r"<answer>(.*?)</answer>", re.S)


def answer_in_tags(text: str) -> str | None:
    """The content of the last <answer>...</answer>, None without one."""
    answers = _ANSWER_TAG.findall(text)
    return str(answers[-1]).strip() if answers else None


FENCED = re.compile(r"```(?:json|JSON)?[ \t]*\n(.*?)```", re.S)


def completion_json(text: str) -> object:
    """The JSON value of a completion. Raises ValueError without any; NaN and Infinity are not JSON."""
    fenced = FENCED.search(text)
    try:
        return json.loads(fenced.group(1) if fenced else text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def check_whole_number(value: object, what: str, least: int) -> None:
    """Raises ValueError for a value that is not a whole number of at least `least`. what: reward and option."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{what} must be a whole number of at least {least}, not {value!r}")


def check_number(value: object, what: str) -> None:
    """Raises ValueError for a value that is not a finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{what} must be a finite number, not {value!r}")
