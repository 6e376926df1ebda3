"""The training ends with a checkpoint when any rank was asked to stop, and checkpoints come where they are exact."""

from typing import Any

from transformers import TrainerCallback

from grpo_recipes.worker._shared.library import on_any
from grpo_recipes.worker.survival.interruption import Interruption
from grpo_recipes.worker.user_code.contained import end_if_fork


class InterruptionCallback(TrainerCallback):  # type: ignore[misc]
    """Ends the training with a checkpoint where a generation is used up after any rank was asked to stop.

    A checkpoint that is due between is written there, too. It comes before callbacks that look at what is saved.
    """

    def __init__(self, request: Interruption, trainer: Any) -> None:
        self.interrupted = False
        self._request = request
        self._trainer = trainer
        self._is_due = False

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Asks all ranks; a signal that comes in the last steps changes nothing, since the run then just ends."""
        end_if_fork()
        if state.global_step >= state.max_steps:
            return control
        self._is_due |= control.should_save
        control.should_save = is_used_up(self._trainer) and self._is_due
        if is_used_up(self._trainer):
            self._is_due = False
            if any(on_any(self._trainer, self._request.requested)):
                self.interrupted = True
                control.should_save = True
                control.should_training_stop = True
        return control


# The steps that train on the completions of one generation.
#
# A checkpoint is exact only where they end: the completions that are still to be trained on are in none, so a run that
# is resumed from a step between generates anew, and comes to other weights.


def is_used_up(trainer: Any) -> bool:
    """Whether the step that has just ended was the last one of its generation, so that the next one generates.

    A process begins with a generation, so its own batches are counted. The releases before num_iterations generate for
    each batch; the first ones with it go by the number of the step.
    Source: `_prepare_inputs` of trl 0.14.0 to 1.16.0.
    """
    iterations = getattr(trainer.args, "num_iterations", 1)
    batches = getattr(trainer.args, "steps_per_generation", None)
    if batches is None:
        return bool(trainer.state.global_step % iterations == 0)
    return bool(trainer._step % (batches * iterations) == 0)
