"""What a service is told of a run before it measures anything."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.secrets.redact import redact_value


class About(NamedTuple):
    """name: the run's in the service; folder: its run folder; project: what the service groups runs by.

    plan: every planned value without secrets, by the key that a user writes. step: the last one that counts, of the
    checkpoint that is gone on from; 0 for a beginning.
    """

    name: str
    folder: Path
    project: str
    plan: Mapping[str, object]
    step: int = 0


class Tracker(Protocol):
    """One service."""

    def begin(self, about: About, identity: str | None) -> str:
        """Begins a run there, or goes on with the one of this identity; returns the identity to keep."""

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Reports what was measured at an optimizer step."""

    def end(self, status: str) -> None:
        """Ends the run there: completed, interrupted or failed."""


def planned_values(plan: Plan) -> dict[str, object]:
    """The values of a plan by the keys of a recipe, or by their own where it has none."""
    values = redact_value({one.recipe_key or one.key: one.value for one in plan.settings})
    return dict(values) if isinstance(values, dict) else {}
