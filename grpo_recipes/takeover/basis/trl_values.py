"""Converts a YAML value as TRL's parser does for a field: only strings are converted, to the field's type.

TrlParser sets the file's values as argparse defaults, and argparse converts defaults that are strings. Source: trl's
scripts/_hf_argparser.py, python 3.11 argparse.py parse_known_args.
"""

import json

from grpo_recipes.takeover.basis.draft import Unreadable

WORDS = {"yes": True, "true": True, "t": True, "y": True, "1": True}
WORDS |= {"no": False, "false": False, "f": False, "n": False, "0": False}


def is_true(value: object) -> bool:
    """Whether a value is true, or one of the words for it."""
    return WORDS.get(str(value).lower(), False)


def as_trl_reads(value: object, annotation: str) -> object:
    """The value that the field gets. annotation: its source text. Raises Unreadable."""
    kinds = [kind.strip() for kind in annotation.split("|")]
    if value is None:
        if "None" in kinds or not annotation:
            return None
        raise Unreadable(f"null is passed as None, but it must be {annotation}")
    if isinstance(value, str):
        return _of_text(value, kinds)
    if isinstance(value, bool):
        return _of_word(value, kinds)
    if isinstance(value, float) and "int" in kinds and "float" not in kinds:
        if value.is_integer():
            return int(value)
        raise Unreadable(f"it must be a whole number, not {value}")
    if isinstance(value, int) and kinds[0] == "bool":
        return bool(value)
    if isinstance(value, int | float) and kinds[0] == "str" and "float" not in kinds:
        raise Unreadable(f"it must be a text, but YAML reads {value} as a number")
    return value


def _of_text(value: str, kinds: list[str]) -> object:
    if any(kind.startswith("dict") for kind in kinds) and value.lstrip().startswith("{"):
        try:
            return json.loads(value)
        except json.JSONDecodeError as problem:
            raise Unreadable(f"it must be a map, and {value} is not JSON") from problem
    if "str" in kinds or not {"bool", "int", "float"} & set(kinds):
        if all(kind.startswith("list") or kind == "None" for kind in kinds):
            raise Unreadable("it must be a list; TRL would split a text into letters")
        return value
    try:
        if "bool" in kinds:
            return WORDS[value.lower()]
        return int(value) if "int" in kinds else float(value)
    except (KeyError, ValueError) as problem:
        raise Unreadable(f"it must be {' or '.join(kinds)}, not {value!r}") from problem


def _of_word(value: bool, kinds: list[str]) -> object:
    if "bool" in kinds:
        return value
    if "int" in kinds or "float" in kinds:
        return float(value) if "float" in kinds else int(value)
    raise Unreadable(f"it must be a text, but YAML 1.1 reads yes, no, on and off as {str(value).lower()}")
