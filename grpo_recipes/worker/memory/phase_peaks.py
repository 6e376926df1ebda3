"""The most memory that each phase of a training held, as it goes on."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from accelerate.utils import gather_object

from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.planned_memory import Phase
from grpo_recipes.worker.memory.counters import Counter, Peak

TOLD_EVERY = 16


class PhasePeaks:
    """One phase is on at any time: `load` at first, then what goes_on_with() named, and within it others.

    step: the optimizer step that is on, counted from 1; 0 before the first. phase: the one that is on; where it raised,
    the one that it raised in. told: called with each phase that comes on.
    """

    def __init__(self, counter: Counter) -> None:
        self.step = 0
        self.phase: Phase = "load"
        self.peaks: dict[Phase, Peak] = {}
        self.told: Callable[[Phase], None] = lambda phase: None
        self._counter = counter
        self._lately = 0

    def goes_on_with(self, phase: Phase) -> None:
        """Ends the phase that is on and begins another."""
        peak = self._counter.take()
        self._lately = max(self._lately, peak.held)
        self._note(self.phase, peak)
        if phase != self.phase:
            self.told(phase)
        self.phase = phase

    @contextmanager
    def during(self, phase: Phase) -> Iterator[None]:
        """The phase is on until this is left; after an exception it stays, since it is what failed."""
        outer = self.phase
        self.goes_on_with(phase)
        yield
        self.goes_on_with(outer)

    def lately(self) -> int:
        """The most bytes of any phase since the last call."""
        self.goes_on_with(self.phase)
        lately, self._lately = self._lately, 0
        return lately

    def most(self) -> Peak:
        """The most of any phase so far."""
        self.goes_on_with(self.phase)
        return functools.reduce(Peak.with_more, self.peaks.values())

    def is_time_to_tell(self) -> bool:
        """Whether the processes tell each other after this step: often at first, then now and then."""
        return self.step.bit_count() == 1 or self.step % TOLD_EVERY == 0

    def tell_all(self, trainer: Any) -> None:
        """Takes the larger peaks of the other processes; all of them call it."""
        self.goes_on_with(self.phase)
        if trainer.accelerator.num_processes > 1:
            for told in gather_object([self.peaks]):
                for phase, peak in told.items():
                    self._note(phase, peak)

    def record(self, plan: Plan) -> dict[str, object]:
        """Each phase that was seen, for run.json: bytes measured, reserved and estimated, and what counted them."""
        self.goes_on_with(self.phase)
        terms = {} if plan.memory is None else plan.memory.phases
        return {
            phase: {
                "measured": peak.held,
                "reserved": peak.reserved,
                "estimated": sum(terms[phase].values()) if terms.get(phase) else None,
                "counter": self._counter.name,
            }
            for phase, peak in self.peaks.items()
        }

    def _note(self, phase: Phase, peak: Peak) -> None:
        before = self.peaks.get(phase)
        self.peaks[phase] = peak if before is None else before.with_more(peak)
