"""The most memory that each phase of a training held, as it goes on."""

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import Phase
from grpo_recipes.worker._shared.library import gathered
from grpo_recipes.worker.memory.counters import Counter, Peak


class PhasePeaks:
    """One phase is on at any time: `load` at first, then what goes_on_with() named, and within it others.

    step: the optimizer step that is on, counted from 1; 0 before the first. phase: the one that is on; where it raised,
    the one that it raised in. told: called with each phase that comes on. earlier: the record of the launches before.
    """

    def __init__(self, counter: Counter, earlier: Mapping[str, object]) -> None:
        self.step = 0
        self.phase: Phase = "load"
        self.peaks: dict[Phase, Peak] = {}
        self.told: Callable[[Phase], None] = lambda phase: None
        self._counter, self._earlier = counter, earlier
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

    def tell_all(self, trainer: Any) -> None:
        """Takes the larger peaks of the other processes; all of them call it."""
        self.goes_on_with(self.phase)
        for told in gathered(trainer, [dict(self.peaks)]):
            for phase, peak in told.items():
                self._note(phase, peak)

    def record(self, plan: Plan) -> dict[str, object]:
        """Each phase that any launch saw, for run.json: bytes measured, reserved and estimated, and what counted them.

        What another counter counted in an earlier launch is not compared with: it is of another machine.
        """
        self.goes_on_with(self.phase)
        terms = {} if plan.memory is None else plan.memory.phases
        found: dict[str, object] = dict(self._earlier)
        for phase, peak in self.peaks.items():
            before = self._before(phase)
            most = peak if before is None else peak.with_more(before)
            found[phase] = {
                "measured": most.held,
                "reserved": most.reserved,
                "estimated": sum(terms[phase].values()) if terms.get(phase) else None,
                "counter": self._counter.name,
            }
        return found

    def _before(self, phase: Phase) -> Peak | None:
        """The most that earlier launches held in a phase."""
        match self._earlier.get(phase):
            case {"measured": int(held), "reserved": int() | None as reserved, "counter": self._counter.name}:
                return Peak(held, reserved)
        return None

    def _note(self, phase: Phase, peak: Peak) -> None:
        before = self.peaks.get(phase)
        self.peaks[phase] = peak if before is None else before.with_more(peak)
