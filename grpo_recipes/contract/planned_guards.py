"""What a plan says of guards."""

from dataclasses import dataclass
from typing import Literal

Action = Literal["off", "note", "warn", "stop"]


@dataclass(frozen=True, slots=True)
class Guards:
    """What is watched while the run trains, and from where on it acts: the recipe's `guards` section, key by key.

    Shares are fractions; *_groups are groups of completions, *_steps optimizer steps.
    """

    zero_variance: Action
    zero_variance_groups: int
    wasted_groups: Action
    wasted_groups_share: float
    truncation: Action
    truncation_share: float
    not_finite: Action
    no_movement: Action
    no_movement_steps: int
    no_progress: Action
    no_progress_factor: int
    no_progress_seconds: int
    far_from_sampler: Action
    kl_rise: Action
    entropy_collapse: Action
    memory_growth: Action
    unused_tools: Action = "warn"
    unused_tools_steps: int = 20
    failing_tools: Action = "warn"
    slow_tools: Action = "note"
