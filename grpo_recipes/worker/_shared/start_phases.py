"""Reports the phases of a run's start, until its first step is over."""

import time

from grpo_recipes.contract.event_words import phase_line
from grpo_recipes.contract.plan_sections import Phase
from grpo_recipes.worker._shared.record import Record

# What the first step is doing, by memory phase. An update without an earlier generation is not reported.
_OF_THE_FIRST_STEP: dict[Phase, str] = {
    "evaluation": "evaluating before the first step",
    "warm_start": "the warm start",
    "sync": "sending the weights to vLLM",
    "generate": "generating the first completions",
    "score": "scoring the first completions",
    "update": "the first update",
}


class StartPhases:
    """Records each phase in run.json when it begins, and logs it when it is over."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._phases: list[dict[str, object]] = []
        self._began = 0.0
        self._is_over = False

    def begin(self, name: str) -> None:
        """Ends the current phase and begins `name`, unless that has begun before or the first step is over."""
        if self._is_over or any(phase["name"] == name for phase in self._phases):
            return
        self._end_last()
        self._began = time.perf_counter()
        self._phases.append({"name": name, "began": round(time.time(), 3), "seconds": None})
        self._record.update(phases=[dict(phase) for phase in self._phases])

    def begin_in_first_step(self, phase: Phase) -> None:
        """Begins the phase of the first step that belongs to a memory phase."""
        has_generated = any(earlier["name"] == _OF_THE_FIRST_STEP["generate"] for earlier in self._phases)
        if phase in _OF_THE_FIRST_STEP and (phase != "update" or has_generated):
            self.begin(_OF_THE_FIRST_STEP[phase])

    def end(self) -> None:
        """Ends the start: the first step is over."""
        if not self._is_over:
            self._end_last()
            self._is_over = True
            self._record.update(phases=[dict(phase) for phase in self._phases])

    def _end_last(self) -> None:
        if self._phases:
            self._phases[-1]["seconds"] = round(time.perf_counter() - self._began, 3)
            if self._record.is_first:
                print(phase_line(self._phases[-1]), flush=True)
