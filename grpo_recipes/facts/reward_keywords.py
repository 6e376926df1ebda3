"""What TRL passes to a reward function beside the columns of the data."""

from grpo_recipes.facts.released.shipped import table
from grpo_recipes.facts.released.windows import is_within

ALWAYS = ("prompts", "completions")


def kept_back() -> tuple[str, ...]:
    """Columns that no reward gets, whatever the data has."""
    return tuple(table("reward_keywords")["kept_back"])


def not_passed(version: str | None) -> dict[str, str]:
    """Keywords that newer releases pass and this one does not, with the releases that do; none when not known."""
    if version is None:
        return {}
    rows = table("reward_keywords")["passed"]
    return {row["keyword"]: row["trl"] for row in rows if not is_within(version, row["trl"])}
