"""Calls that are made of what the model is told of a tool, where the recipe says none."""

from collections.abc import Mapping
from typing import Any

CALLS_OF_A_TOOL = 3
_WORDS = ("example", "another", "third")
_NUMBERS = (7, 2, 31)


def made_calls(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Different arguments for a tool of this JSON schema, at most three of them, of the types that it says.

    They hold no text of the data, which a tool might take for code.
    """
    parameters = schema.get("function", {}).get("parameters", {})
    properties = {name: one for name, one in parameters.get("properties", {}).items() if name != "return"}
    required = [name for name in parameters.get("required", []) if name in properties] or list(properties)
    found: list[dict[str, Any]] = []
    for number in range(CALLS_OF_A_TOOL):
        arguments = {name: _value(properties[name], number) for name in required}
        if arguments not in found:
            found.append(arguments)
    return found


def _value(schema: Mapping[str, Any], number: int) -> Any:
    """A value of a schema, another one for each number where it has several."""
    if schema.get("enum"):
        return schema["enum"][number % len(schema["enum"])]
    if schema.get("anyOf"):
        return _value(schema["anyOf"][0], number)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    match kind:
        case "integer":
            return _NUMBERS[number]
        case "number":
            return _NUMBERS[number] + 0.5
        case "boolean":
            return number % 2 == 0
        case "null":
            return None
        case "array":
            if "prefixItems" in schema:
                return [_value(one, number) for one in schema["prefixItems"]]
            return [_value(schema.get("items", {}), number)]
        case "object":
            return {_WORDS[number]: _value(schema.get("additionalProperties") or {}, number)}
    return _WORDS[number]
