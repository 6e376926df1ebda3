"""The share of the fields of a JSON document that a completion has right."""

import json

from grpo_recipes.rewards.completion_text import Completion, completion_json, completion_text

Field = tuple[tuple[str | int, ...], str]


def json_fields(completions: list[Completion], *, solution: list[object], **kwargs: object) -> list[float | None]:
    """Gives the share of the fields that are right, from 0.0 to 1.0, and 0.0 if the completion is not JSON.

    A field is a path of keys and indexes with its value: a text, number, boolean or null. The share is of all fields in
    the completion or the solution, so invented fields count like missing ones. White space around texts is ignored, and
    2 equals 2.0.
    solution: a JSON text, or its value; a row whose solution is missing or not JSON gets None, that is, no reward.
    """
    return [_share(completion_text(given), wanted) for given, wanted in zip(completions, solution, strict=True)]


def _share(text: str, solution: object) -> float | None:
    if solution is None:
        return None
    try:
        wanted = _fields(json.loads(solution) if isinstance(solution, str) else solution)
    except (ValueError, RecursionError):
        return None
    try:
        given = _fields(completion_json(text))
    except (ValueError, RecursionError):
        return 0.0
    return len(wanted & given) / len(wanted | given)


def _fields(value: object, path: tuple[str | int, ...] = ()) -> set[Field]:
    """The fields of a value; an empty object or list counts as one."""
    if isinstance(value, dict) and value:
        return {field for key, inner in value.items() for field in _fields(inner, (*path, str(key)))}
    if isinstance(value, list) and value:
        return {field for index, inner in enumerate(value) for field in _fields(inner, (*path, index))}
    if isinstance(value, str):
        return {(path, f'"{value.strip()}"')}
    if isinstance(value, float) and value.is_integer():
        return {(path, str(int(value)))}
    return {(path, json.dumps(value))}
