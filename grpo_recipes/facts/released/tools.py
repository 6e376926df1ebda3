"""Which releases take tools, what they need beside, and the chat templates whose tool calls they read."""

from collections.abc import Mapping
from typing import Any

from grpo_recipes.facts.released.shipped import table
from grpo_recipes.facts.released.windows import is_within

PARAMETERS = {"tools": "tools", "environment": "environment_factory", "rollout": "rollout_func"}
"""What a recipe asks for -> the parameter of GRPOTrainer that takes it."""


def needed_transformers(asked: str, trl: str) -> str | None:
    """The window of transformers without which GRPOTrainer raises ImportError for it, None where it needs none."""
    rows = table("tools")["needs"]
    return next((row["transformers"] for row in rows if row["asked"] == asked and is_within(trl, row["trl"])), None)


def needs_jmespath(trl: str, transformers: str | None) -> bool:
    """Whether tool calls are read with jmespath, without which GRPOTrainer raises ImportError."""
    return any(_holds(row, trl, transformers) for row in table("tools")["jmespath"])


def read_responses(trl: str, transformers: str | None) -> tuple[str, ...]:
    """What a tokenizer may bring along for reading tool calls, by the names in its tokenizer_config.json."""
    return tuple(row["key"] for row in table("tools")["responses"] if _holds(row, trl, transformers))


def known_templates(trl: str, transformers: str | None) -> Mapping[str, str]:
    """The chat templates of which TRL knows how tool calls are written: sha256 of the text -> name."""
    rows = table("tools")["templates"]
    return {row["sha256"]: row["name"] for row in rows if _holds(row, trl, transformers)}


def _holds(row: Mapping[str, Any], trl: str, transformers: str | None) -> bool:
    window = row.get("transformers")
    return is_within(trl, row["trl"]) and (
        window is None or (transformers is not None and is_within(transformers, window))
    )
