"""The JSON that a completion is, or that its first fenced block is."""

import json
import re

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
