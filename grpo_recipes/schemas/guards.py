"""`guards`: what the run watches while it trains, and how it reacts."""

from typing import Annotated, Any, Literal

from pydantic import Field

from grpo_recipes.schemas.section import PositiveFraction, PositiveInt, Section, Word

Action = Literal["off", "note", "warn", "stop"]


class GuardsSection(Section):
    """What the run watches while it trains. off: do not watch; note, warn: print a line; stop: end the run with exit 3.
    No guard changes what is trained. `grpo-run explain GRD001` to GRD013 explain each.
    """

    zero_variance: Action = "stop"
    """Since the start no group of completions had two different rewards, so nothing can be learned."""
    zero_variance_groups: PositiveInt = 256
    """Groups without variance since the start, over at least 10 optimizer steps, until zero_variance acts."""
    wasted_groups: Action = "note"
    """Most groups no longer have variance, so most of the work teaches nothing."""
    wasted_groups_share: PositiveFraction = 0.9
    """Share of groups without variance, averaged over 20 optimizer steps, at which wasted_groups acts."""
    truncation: Action = "warn"
    """Nearly all completions reach max_completion_length before they end."""
    truncation_share: PositiveFraction = 0.95
    """Share of truncated completions, averaged over 10 optimizer steps, at which truncation acts."""
    not_finite: Action = "stop"
    """A loss, gradient or trained weight is NaN or infinite. Acts at once, before the optimizer's step."""
    no_movement: Action = "stop"
    """The rewards vary, but no trained tensor has changed."""
    no_movement_steps: PositiveInt = 20
    """Optimizer steps with varying rewards and unchanged weights until no_movement acts."""
    no_progress: Action = "stop"
    """A step, a batch of an evaluation or a save takes far too long. The run folder gets the stacks of all threads."""
    no_progress_factor: PositiveInt = 10
    """Acts when a step takes this many times the median step. With stop the run ends at four times that."""
    no_progress_seconds: PositiveInt = 300
    """Seconds that a step may always take. The first steps, a batch of an evaluation and a save may take six times
    that.
    """
    far_from_sampler: Action = "warn"
    """The trained policy is far from the one that wrote the completions: clipped or wrong ratios."""
    kl_rise: Action = "warn"
    """The KL divergence from the reference model is above 1 nat and 10 times its median so far. Only with beta > 0."""
    entropy_collapse: Action = "warn"
    """The entropy fell below 0.3 of its starting value, and the reward is no better than at the start."""
    memory_growth: Action = "note"
    """The memory of a process grows from step to step although completions do not get longer."""
    unused_tools: Action = "warn"
    """The policy calls no tool. Only with tools or an environment, like the two below."""
    unused_tools_steps: PositiveInt = 20
    """Optimizer steps in a row without a call until unused_tools acts."""
    failing_tools: Action = "warn"
    """Every call of a tool fails."""
    slow_tools: Action = "note"
    """Steps spend more time on tools than on the completions."""


# `preflight`: scripted turns that replace the model before the training.


class TurnSection(Section):
    """One turn of the model: a call of a tool, or its final answer."""

    tool: Word | None = None
    """The tool to call, by the name of its function or of the environment's method."""
    arguments: dict[str, Any] = {}
    """Its arguments, by parameter name."""
    answer: str | None = None
    """The model's final text, which ends the completion."""


class PreflightSection(Section):
    """What `grpo-run preflight` plays; a training ignores it."""

    turns: Annotated[list[TurnSection], Field(max_length=64)] = []
    """A completion, turn by turn: calls, which the tools answer, and an answer; the rewards score all of it. Empty: a
    call of each tool, and the right answer of a row.
    """
