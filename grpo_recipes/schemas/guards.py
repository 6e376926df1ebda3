"""`guards`: what is watched while the run trains, and what is done about it."""

from typing import Literal

from grpo_recipes.schemas.section import PositiveFraction, PositiveInt, Section

Action = Literal["off", "note", "warn", "stop"]


class GuardsSection(Section):
    """What is watched while the run trains. off: not at all; note, warn: a line; stop: the run ends with exit 3.

    No guard changes what is trained. `grpo-run explain GRD001` has its page, as for the others up to GRD013.
    """

    zero_variance: Action = "stop"
    """Since the beginning no group of completions had two different rewards: there is nothing to learn from."""
    zero_variance_groups: PositiveInt = 256
    """Groups without variance from the beginning on, in 10 optimizer steps at least, until zero_variance acts."""
    wasted_groups: Action = "note"
    """Most groups have no variance any more, so most of the work teaches nothing."""
    wasted_groups_share: PositiveFraction = 0.9
    """Share of groups without variance, mean of 20 optimizer steps, from which wasted_groups acts."""
    truncation: Action = "warn"
    """Nearly all completions are cut at max_completion_length, before they end."""
    truncation_share: PositiveFraction = 0.95
    """Share of truncated completions, mean of 10 optimizer steps, from which truncation acts."""
    not_finite: Action = "stop"
    """A loss, gradient or trained weight is NaN or infinite. Acts at the first one, before the optimizer's step."""
    no_movement: Action = "stop"
    """The rewards vary, and no trained tensor has changed."""
    no_movement_steps: PositiveInt = 20
    """Optimizer steps with varying rewards and unchanged weights until no_movement acts."""
    no_progress: Action = "stop"
    """A step, a batch of an evaluation or a save takes far longer than it should. The stacks of all threads are written
    to the run folder."""
    no_progress_factor: PositiveInt = 10
    """Acts when a step takes so many times the median step. With stop the run ends at four times that."""
    no_progress_seconds: PositiveInt = 300
    """Seconds that a step may take in any case. Six times that: each of the first steps, a batch of an evaluation, a
    save."""
    far_from_sampler: Action = "warn"
    """The policy that is trained is far from the one that wrote the completions: clipped or wrong ratios."""
    kl_rise: Action = "warn"
    """The KL divergence from the reference model is above 1 nat and 10 times its median so far. Only with beta > 0."""
    entropy_collapse: Action = "warn"
    """The entropy has fallen below 0.3 of its start, and the reward is no better than it was then."""
    memory_growth: Action = "note"
    """The memory of a process grows from step to step though completions grow no longer."""
    unused_tools: Action = "warn"
    """The policy calls no tool. Only with tools or an environment, as the two that follow."""
    unused_tools_steps: PositiveInt = 20
    """Optimizer steps in a row without a call until unused_tools acts."""
    failing_tools: Action = "warn"
    """Every call of a tool fails."""
    slow_tools: Action = "note"
    """Steps wait longer for tools than for the completions themselves."""
