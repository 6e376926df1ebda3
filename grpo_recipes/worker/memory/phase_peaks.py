"""Records the peak memory and the duration of each phase during training."""

import functools
import resource
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch

from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import Phase
from grpo_recipes.worker._shared.library import gather_from_all

_CLEAR_REFS, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
_RESET_PEAK = "5"


class Peak(NamedTuple):
    """Peak bytes in use, and the bytes that torch's allocator reserved on the GPU for them, None on other devices."""

    held: int
    reserved: int | None = None

    def with_more(self, other: "Peak") -> "Peak":
        """Returns the larger value of each."""
        reserved = [peak.reserved for peak in (self, other) if peak.reserved is not None]
        return Peak(max(self.held, other.held), max(reserved, default=None))


def counter_of(device: str) -> "GpuMemory | ResidentMemory":
    """Returns the counter of the memory that limits training on "cuda" or "cpu"."""
    if device == "cuda" and torch.cuda.is_available():
        return GpuMemory()
    return ResidentMemory()


class GpuMemory:
    """Counts what torch allocated on this process's GPU, without the CUDA context and other programs."""

    name = "torch.cuda.max_memory_allocated"

    def take(self) -> Peak:
        """Waits for queued GPU work, so that its time counts for the phase that queued it."""
        with suppress(RuntimeError):  # the next operation reports a fault of the GPU
            torch.cuda.synchronize()
        peak = Peak(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
        torch.cuda.reset_peak_memory_stats()
        return peak


class ResidentMemory:
    """Counts resident memory, including interpreter and libraries, by the kernel's high-water mark.

    Where the mark cannot be reset, as in some containers, each phase reports the maximum so far, and the name says so.
    Source: proc_pid_clear_refs(5), 5 written; Linux 4.0.
    """

    name = "VmHWM"

    def take(self) -> Peak:
        """Takes a few microseconds."""
        mark = _STATUS.read_text().partition("\nVmHWM:")[2].split(None, 1)
        held = int(mark[0]) << 10 if mark else resident_most()  # some container sandboxes have no high-water mark
        try:
            _CLEAR_REFS.write_text(_RESET_PEAK)
        except OSError:
            self.name = "VmHWM so far"
        return Peak(held)


def resident_most() -> int:
    """Returns peak resident bytes since the process began, or since ResidentMemory was last taken.

    At least the peak of the program that this process ran before exec.
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


MemoryCounter = GpuMemory | ResidentMemory
"""Counters whose take() returns the peak since the last call. name: what is counted; only equal ones are compared."""


class PhasePeaks:
    """Tracks the current phase, possibly nested, and records each phase's peak memory. The first phase is `load`.

    step: the current optimizer step, counted from 1; 0 before the first. phase: the current one, or the one that
    raised. on_phase: called with each new phase. earlier: the record of earlier launches.
    Rewards are called in the phase `score`, and their time is counted as OF_REWARDS.
    """

    def __init__(self, counter: MemoryCounter, earlier: Mapping[str, object]) -> None:
        self.step = 0
        self.phase: Phase = "load"
        self.peaks: dict[Phase, Peak] = {}
        self.on_phase: Callable[[Phase], None] = lambda phase: None
        self._counter, self._earlier = counter, earlier
        self._lately, self._since = 0, time.perf_counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._timed_as: str = "load"

    def begin(self, phase: Phase, timed_as: str = "") -> None:
        """Ends the current phase and begins the next one. timed_as: what its seconds count as, else the phase."""
        peak, before = self._counter.take(), self._since
        self._since = time.perf_counter()
        self._seconds[self._timed_as] += self._since - before
        self._timed_as = timed_as or phase
        self._lately = max(self._lately, peak.held)
        self._note(self.phase, peak)
        if phase != self.phase:
            self.on_phase(phase)
        self.phase = phase

    @contextmanager
    def during(self, phase: Phase, timed_as: str = "") -> Iterator[None]:
        """Enters a phase for the block; after an exception it stays set, since that phase failed."""
        outer = self.phase, self._timed_as
        self.begin(phase, timed_as)
        yield
        self.begin(*outer)

    def seconds(self) -> dict[str, float]:
        """Returns the elapsed seconds of each phase so far."""
        self._end_part()
        return dict(self._seconds)

    def lately(self) -> int:
        """Returns the peak bytes of any phase since the last call."""
        self._end_part()
        lately, self._lately = self._lately, 0
        return lately

    def most(self) -> Peak:
        """Returns the peak of any phase so far."""
        self._end_part()
        return functools.reduce(Peak.with_more, self.peaks.values())

    def tell_all(self, trainer: Any) -> None:
        """Merges the larger peaks of the other processes; every process must call it."""
        self._end_part()
        for peaks in gather_from_all(trainer, [dict(self.peaks)]):
            for phase, peak in peaks.items():
                self._note(phase, peak)

    def record(self, plan: Plan) -> dict[str, object]:
        """Returns the phases of all launches for run.json: bytes measured, reserved and estimated, and the counter.

        An earlier launch that used a different counter ran on a different machine and is not compared.
        """
        self._end_part()
        terms = {} if plan.memory is None else plan.memory.phases
        phases: dict[str, object] = dict(self._earlier)
        for phase, peak in self.peaks.items():
            before = self._before(phase)
            most = peak if before is None else peak.with_more(before)
            phases[phase] = {
                "measured": most.held,
                "reserved": most.reserved,
                "estimated": sum(terms[phase].values()) if terms.get(phase) else None,
                "counter": self._counter.name,
            }
        return phases

    def _end_part(self) -> None:
        self.begin(self.phase, self._timed_as)

    def _before(self, phase: Phase) -> Peak | None:
        """Returns the peak of a phase in earlier launches."""
        match self._earlier.get(phase):
            case {"measured": int(held), "reserved": int() | None as reserved, "counter": self._counter.name}:
                return Peak(held, reserved)
        return None

    def _note(self, phase: Phase, peak: Peak) -> None:
        before = self.peaks.get(phase)
        self.peaks[phase] = peak if before is None else before.with_more(peak)
