"""Makes arguments for tools from their JSON schemas."""

import re
from collections.abc import Mapping
from typing import Any

CALLS_OF_A_TOOL = 3
_WORDS = ("example", "another", "third")
_NUMBERS = (7, 2, 31)
_EXAMPLE = re.compile(r"(?:such as|for example|e\.g\.),? ['\"`]?([^'\"`,;\n]{1,60}?)['\"`]?(?:[,;]|\.?\s*$| or )")


def made_calls(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns up to three different sets of arguments for a tool with this JSON schema, of matching types.

    The first has the examples of the descriptions. No argument is text from the data, which a tool might execute.
    """
    parameters = schema.get("function", {}).get("parameters", {})
    properties = {name: field for name, field in parameters.get("properties", {}).items() if name != "return"}
    required = [name for name in parameters.get("required", []) if name in properties] or list(properties)
    calls: list[dict[str, Any]] = []
    for number in range(CALLS_OF_A_TOOL):
        arguments = {name: _value(properties[name], number) for name in required}
        if number == 0:
            arguments |= {name: value for name, value in examples(schema).items() if name in required}
        if arguments not in calls:
            calls.append(arguments)
    return calls


def examples(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the examples of texts and numbers in the descriptions of a tool's parameters: "such as Paris"."""
    properties = schema.get("function", {}).get("parameters", {}).get("properties", {})
    values: dict[str, Any] = {}
    for name, field in properties.items():
        example = _EXAMPLE.search(str(field.get("description", "")))
        if example is None or field.get("enum"):
            continue
        if field.get("type") == "string":
            values[name] = example[1]
        elif field.get("type") in ("integer", "number") and re.fullmatch(r"-?\d+(\.\d+)?", example[1]):
            values[name] = float(example[1]) if "." in example[1] else int(example[1])
    return values


def _value(schema: Mapping[str, Any], number: int) -> Any:
    """Returns a value for a schema, different for each number if there are several."""
    if schema.get("enum"):
        return schema["enum"][number % len(schema["enum"])]
    if schema.get("anyOf"):
        return _value(schema["anyOf"][0], number)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "null")
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
                return [_value(part, number) for part in schema["prefixItems"]]
            return [_value(schema.get("items", {}), number)]
        case "object":
            return {_WORDS[number]: _value(schema.get("additionalProperties") or {}, number)}
    return _WORDS[number]
