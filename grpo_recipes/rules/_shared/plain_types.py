"""Whether a value of a recipe has the plain type that a library's class declares, for rules."""

# Plain types of YAML; the library checks anything richer.
PLAIN: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "dict": (dict,),
    "list": (list,),
}
WORDS = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "text"}
WORDS |= {"dict": "a map", "list": "a list"}


def needed(annotation: str, value: object) -> str | None:
    """What a value must be but is not, in words; None if it is right or the annotation is not a plain type."""
    kinds = [part.strip().partition("[")[0] for part in annotation.split("|")]
    kinds = [kind for kind in kinds if kind != "None"]
    if value is None or not kinds or any(kind not in PLAIN for kind in kinds):
        return None
    if any(isinstance(value, PLAIN[kind]) and (kind == "bool" or not isinstance(value, bool)) for kind in kinds):
        return None
    return " or ".join(WORDS[kind] for kind in kinds)
