"""The guards that look at the trainer's lines, built for one training. Two more look elsewhere: see the callback."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType

from grpo_recipes.contract.plan_sections import Guards
from grpo_recipes.worker.guards import (
    entropy_collapse,
    failing_tools,
    far_from_sampler,
    kl_rise,
    memory_growth,
    no_movement,
    slow_tools,
    truncation,
    unused_tools,
    wasted_groups,
    zero_variance,
)
from grpo_recipes.worker.guards.alarm import Guard


@dataclass(frozen=True, slots=True)
class WatchedTraining:
    """What guards ask of a training.

    groups_per_step: prompts of an optimizer step over all processes. limit: max_completion_length. has_reference:
    beta is above 0. have_moved: see no_movement. everyone: see memory_growth. has_tools: the policy can call some.
    """

    groups_per_step: int
    limit: int
    has_reference: bool
    have_moved: Callable[[], bool]
    everyone: Callable[[memory_growth.InUse], list[memory_growth.InUse]]
    has_tools: bool = False


def of_lines(guards: Guards, training: WatchedTraining) -> Iterator[tuple[ModuleType, Guard]]:
    """The guards that are on, each with its module."""
    made: dict[ModuleType, Callable[[], Guard] | None] = {
        zero_variance: lambda: zero_variance.ZeroVariance(guards, training.groups_per_step),
        wasted_groups: lambda: wasted_groups.WastedGroups(guards),
        truncation: lambda: truncation.Truncation(guards, training.limit),
        no_movement: lambda: no_movement.NoMovement(guards, training.have_moved),
        far_from_sampler: far_from_sampler.FarFromSampler,
        kl_rise: kl_rise.KlRise if training.has_reference else None,
        entropy_collapse: entropy_collapse.EntropyCollapse,
        memory_growth: lambda: memory_growth.MemoryGrowth(training.everyone),
        unused_tools: (lambda: unused_tools.UnusedTools(guards)) if training.has_tools else None,
        failing_tools: failing_tools.FailingTools if training.has_tools else None,
        slow_tools: slow_tools.SlowTools if training.has_tools else None,
    }
    for module, make in made.items():
        if make is not None and action(guards, module) != "off":
            yield module, make()


def action(guards: Guards, module: ModuleType) -> str:
    """What the plan says for a guard: off, note, warn or stop."""
    return str(getattr(guards, module.NAME))
