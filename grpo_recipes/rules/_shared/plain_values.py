"""The plain types of YAML that a field of a library class can have, in words; the library checks anything richer."""

from grpo_recipes.facts.source.field import plain_types

PLAIN: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "dict": (dict,),
    "list": (list,),
}
WORDS = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "a string"}
WORDS |= {"dict": "a map", "list": "a list"}


def expected_type(annotation: str, value: object) -> str | None:
    """What a value must be but is not, in words; None if it is right or the annotation is not a plain type."""
    kinds = plain_types(annotation)
    if value is None or kinds is None:
        return None
    if any(isinstance(value, PLAIN[kind]) and (kind == "bool" or not isinstance(value, bool)) for kind in kinds):
        return None
    return " or ".join(WORDS[kind] for kind in kinds)
