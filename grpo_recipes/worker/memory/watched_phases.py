"""Where a trainer changes phases, in all supported releases of TRL.

Completions are generated and scored inside `_generate_and_score_completions`, in trl 0.15 inside `_prepare_inputs`;
log-probabilities and rewards have separate methods since 0.15 and 0.19. vLLM gets its weights in
`_move_model_to_vllm`, since 0.29 in `vllm_generation.sync_weights`. trl 0.14 does all of it in its loss: there, the
generating call marks generation, and scoring and the hand-over of weights count as update.
Source: grpo_trainer.py of trl 0.14.0 to 1.16.0.
"""

from contextlib import nullcontext
from typing import Any

from transformers import TrainerCallback

from grpo_recipes.contract.metric_names import OF_REWARDS
from grpo_recipes.contract.plan_sections import Phase
from grpo_recipes.worker._shared.library import vllm_engine
from grpo_recipes.worker._shared.start_phases import StartPhases
from grpo_recipes.worker.memory.phase_peaks import PhasePeaks


def watch_phases(trainer: Any, peaks: PhasePeaks) -> None:
    """Makes the trainer's members report the phase. Call once."""
    has, made = trainer.seams.has, ("completions are made", "completions are made in the batch")
    if any(map(has, made)):
        _watch(trainer, next(filter(has, made)), "generate", peaks)
    else:
        _watch(trainer, "policy generates", "generate", peaks, within="update")
        if vllm_engine(trainer) is not None:
            _watch(trainer, "engine generates", "generate", peaks, within="update")
    for event, timed_as in (("tokens are scored", ""), ("rewards are given", OF_REWARDS)):
        _watch(trainer, event if has(event) else "", "score", peaks, within="generate", timed_as=timed_as)
    if trainer.args.use_vllm:
        _watch(trainer, next(filter(has, ("weights reach vLLM", "vLLM gets weights")), ""), "sync", peaks)
    _watch(trainer, "checkpoint is saved", "save", peaks)


def _watch(
    trainer: Any, event: str, phase: Phase, peaks: PhasePeaks, *, within: Phase | None = None, timed_as: str = ""
) -> None:
    """Runs an event as a phase. within: only while this phase is current."""
    if event:
        trainer.seams.surround(
            event, "phase", lambda: peaks.during(phase, timed_as) if within in (None, peaks.phase) else nullcontext()
        )


class PhaseCallback(TrainerCallback):  # type: ignore[misc]
    """Reports the start of training and of each step."""

    def __init__(self, peaks: PhasePeaks, phases: StartPhases) -> None:
        self._peaks, self._phases = peaks, phases

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Ends the phase `load`: by now everything is loaded, including the optimizer and a checkpoint."""
        self._peaks.begin("update")

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Counts from 1."""
        self._peaks.step = state.global_step + 1

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Ends the start phases with the first step."""
        self._phases.end()
