"""The most memory that each phase of a training held, and the seconds that it took, as it goes on."""

import functools
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import TrainerCallback

from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import Phase
from grpo_recipes.worker._shared.library import SCORING, gathered, vllm_engine
from grpo_recipes.worker._shared.start_phases import StartPhases

_CLEAR_REFS, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
_RESET_PEAK = "5"


class Peak(NamedTuple):
    """The most bytes that were held, and that torch's allocator had taken of the GPU for them, None elsewhere."""

    held: int
    reserved: int | None = None

    def with_more(self, other: "Peak") -> "Peak":
        """The larger of each."""
        reserved = [one.reserved for one in (self, other) if one.reserved is not None]
        return Peak(max(self.held, other.held), max(reserved, default=None))


def counter_of(device: str) -> "GpuMemory | ResidentMemory":
    """What counts the memory that limits a training on "cuda" or "cpu"."""
    if device == "cuda" and torch.cuda.is_available():
        return GpuMemory()
    return ResidentMemory()


class GpuMemory:
    """What torch allocated on this process's GPU; neither the CUDA context nor what other programs hold."""

    name = "torch.cuda.max_memory_allocated"

    def take(self) -> Peak:
        """Waits for what the GPU was given, so that its seconds belong to the phase that gave it."""
        with suppress(RuntimeError):  # a fault of the GPU is told by what meets it next
            torch.cuda.synchronize()
        peak = Peak(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
        torch.cuda.reset_peak_memory_stats()
        return peak


class ResidentMemory:
    """Resident memory, the interpreter and the libraries with it, by the kernel's own high-water mark.

    Where the mark cannot be reset, as in some containers, each phase has the most so far, and the name says so.
    Source: proc_pid_clear_refs(5), 5 written; Linux 4.0.
    """

    name = "VmHWM"

    def take(self) -> Peak:
        """Costs some microseconds."""
        mark = _STATUS.read_text().partition("\nVmHWM:")[2].split(None, 1)
        held = int(mark[0]) << 10 if mark else resident_most()  # some sandboxes for containers have no mark
        try:
            _CLEAR_REFS.write_text(_RESET_PEAK)
        except OSError:
            self.name = "VmHWM so far"
        return Peak(held)


def resident_most() -> int:
    """The most bytes that were resident since the process began, or since ResidentMemory was last taken.

    Never less than what the program had that this one began as.
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


Counter = GpuMemory | ResidentMemory
"""What counts anew after each take(), the most since the call before. name: what is counted, for who compares it."""


class PhasePeaks:
    """One phase is on at any time: `load` at first, then what goes_on_with() named, and within it others.

    step: the optimizer step that is on, counted from 1; 0 before the first. phase: the one that is on; where it raised,
    the one that it raised in. told: called with each phase that comes on. earlier: the record of the launches before.
    """

    def __init__(self, counter: Counter, earlier: Mapping[str, object]) -> None:
        self.step = 0
        self.phase: Phase = "load"
        self.peaks: dict[Phase, Peak] = {}
        self.seconds: dict[Phase, float] = {}
        self.told: Callable[[Phase], None] = lambda phase: None
        self._counter, self._earlier = counter, earlier
        self._lately, self._since = 0, time.perf_counter()

    def goes_on_with(self, phase: Phase) -> None:
        """Ends the phase that is on and begins another."""
        peak, before = self._counter.take(), self._since
        self._since = time.perf_counter()
        self.seconds[self.phase] = self.seconds.get(self.phase, 0.0) + self._since - before
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


# Where a trainer goes from one phase to another, in all supported releases of TRL.
#
# Completions are made and scored inside of `_generate_and_score_completions`, in trl 0.15 inside of `_prepare_inputs`;
# what scores within it, log-probabilities and rewards, has methods of its own from 0.15 and 0.19 on. vLLM gets its
# weights in `_move_model_to_vllm`, from 0.29 on in `vllm_generation.sync_weights`. trl 0.14 does all of it in its loss:
# there generation is seen by what generates, and scoring and the hand-over of weights belong to the update.
# Source: grpo_trainer.py of trl 0.14.0 to 1.16.0.


def watch_phases(trainer: Any, peaks: PhasePeaks) -> None:
    """Lets the trainer's own methods say which phase is on. Before others stand in for these methods, and once."""
    generating = next(
        (name for name in ("_generate_and_score_completions", *_prepares(trainer)) if hasattr(trainer, name)), None
    )
    if generating is not None:
        _watch(trainer, generating, "generate", peaks)
    else:
        for generator in filter(None, (trainer.model, vllm_engine(trainer))):
            _watch(generator, "generate", "generate", peaks, within="update")
    for name in (*SCORING, "_calculate_rewards"):
        _watch(trainer, name, "score", peaks, within="generate")
    _watch(trainer, "_move_model_to_vllm", "sync", peaks)
    _watch(getattr(trainer, "vllm_generation", None), "sync_weights", "sync", peaks)


def watch_saves(trainer: Any, peaks: PhasePeaks) -> None:
    """Lets checkpoints be a phase; after others stand in for the method that writes them."""
    _watch(trainer, "_save_checkpoint", "save", peaks)


def _prepares(trainer: Any) -> tuple[str, ...]:
    """What generates in trl 0.15; the method of that name in 0.14 does nothing."""
    return ("_prepare_inputs",) if any(hasattr(trainer, name) for name in SCORING) else ()


def _watch(owner: Any, name: str, phase: Phase, peaks: PhasePeaks, *, within: Phase | None = None) -> None:
    """Puts a method of the same name before one that is there. within: the phase in which alone it is another one."""
    method = getattr(owner, name, None)
    if method is None:
        return

    @functools.wraps(method)
    def watched(*given: Any, **named: Any) -> Any:
        if within is not None and peaks.phase != within:
            return method(*given, **named)
        with peaks.during(phase):
            return method(*given, **named)

    setattr(owner, name, watched)


class PhaseCallback(TrainerCallback):  # type: ignore[misc]
    """Says when the training begins and a step does."""

    def __init__(self, peaks: PhasePeaks, phases: StartPhases) -> None:
        self._peaks, self._phases = peaks, phases

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """All is loaded, the optimizer and a checkpoint too."""
        self._peaks.goes_on_with("update")

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Counts from 1."""
        self._peaks.step = state.global_step + 1

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The first step is over, if it was that."""
        self._phases.end()
