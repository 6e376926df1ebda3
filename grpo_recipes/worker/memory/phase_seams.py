"""Where a trainer goes from one phase to another, in all supported releases of TRL.

Completions are made and scored inside of `_generate_and_score_completions`, in trl 0.15 inside of `_prepare_inputs`;
what scores within it, log-probabilities and rewards, has methods of its own from 0.15 and 0.19 on. vLLM gets its
weights in `_move_model_to_vllm`, from 0.29 on in `vllm_generation.sync_weights`. trl 0.14 does all of it in its loss:
there generation is seen by what generates, and scoring and the hand-over of weights belong to the update.
Source: grpo_trainer.py of trl 0.14.0 to 1.16.0.
"""

import functools
from typing import Any

from transformers import TrainerCallback

from grpo_recipes.contract.plan_sections import Phase
from grpo_recipes.worker._shared.library import vllm_engine
from grpo_recipes.worker._shared.start_phases import StartPhases
from grpo_recipes.worker.memory.phase_peaks import PhasePeaks

_LOG_PROBS = ("_get_per_token_logps", "_get_per_token_logps_and_entropies")


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
    for name in (*_LOG_PROBS, "_calculate_rewards"):
        _watch(trainer, name, "score", peaks, within="generate")
    _watch(trainer, "_move_model_to_vllm", "sync", peaks)
    _watch(getattr(trainer, "vllm_generation", None), "sync_weights", "sync", peaks)


def watch_saves(trainer: Any, peaks: PhasePeaks) -> None:
    """Lets checkpoints be a phase; after others stand in for the method that writes them."""
    _watch(trainer, "_save_checkpoint", "save", peaks)


def _prepares(trainer: Any) -> tuple[str, ...]:
    """What generates in trl 0.15; the method of that name in 0.14 does nothing."""
    return ("_prepare_inputs",) if any(hasattr(trainer, name) for name in _LOG_PROBS) else ()


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
