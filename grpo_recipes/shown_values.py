"""Values as messages and fixes have them."""

import re

from grpo_recipes.contract.findings.finding import Path


def shown(value: object, limit: int = 60) -> str:
    """A value as it stands in a message: YAML-like, short, without control characters."""
    text = (
        "null"
        if value is None
        else str(value).lower()
        if isinstance(value, bool)
        else repr(value)
        if isinstance(value, str)
        else str(value)
    )
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def entry(path: Path, text: str) -> str:
    """How the value at a path is written: "key: text", "- text" in a list."""
    return f"- {text}" if isinstance(path[-1], int) else f"{path[-1]}: {text}"


def flow(value: object) -> str:
    """A value in YAML's flow style, as a fix shows it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w./-]*(:\w+)?", value)
    return str(value) if plain else shown(value)
