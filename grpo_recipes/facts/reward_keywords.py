"""The keywords that TRL passes to reward functions, and the reward functions that it ships, by release.

The table is `data/reward_keywords.json`.
"""

from grpo_recipes.facts.released.shipped import table
from grpo_recipes.facts.released.windows import is_within


def columns_no_reward_gets() -> tuple[str, ...]:
    """Columns that no reward receives, whatever the data has."""
    return tuple(table("reward_keywords")["kept_back"])


def not_passed(version: str | None) -> dict[str, str]:
    """Keywords that newer releases pass and this one does not, with the releases that do; empty if unknown."""
    if version is None:
        return {}
    rows = table("reward_keywords")["passed"]
    return {row["keyword"]: row["trl"] for row in rows if not is_within(version, row["trl"])}


def rewards_of_trl(version: str | None) -> tuple[str, ...]:
    """The names in trl.rewards of a release, empty if unknown."""
    rows = table("reward_keywords")["shipped"] if version is not None else ()
    return tuple(row["name"] for row in rows if is_within(str(version), row["trl"]))
