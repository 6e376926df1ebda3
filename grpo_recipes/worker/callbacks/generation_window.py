"""The steps that train on the completions of one generation.

A checkpoint is exact only where they end: the completions that are still to be trained on are in none, so a run that is
resumed from a step between generates anew, and comes to other weights.
"""

from typing import Any


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
