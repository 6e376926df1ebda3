"""A loss, a gradient or a trained weight is NaN or infinite, or a reward is infinite.

One such number makes every weight that it reaches NaN, and they stay so. transformers' logging_nan_inf_filter, which
is on, puts the mean of earlier losses in the place of such a loss: the logs look well while the model is lost.
Sampling from such a model raises "probability tensor contains either inf, nan" or, on a GPU, a device-side assert
without a word about the cause. An infinite reward does less and is harder to see: recent releases of TRL put 0 in the
place of the advantages of its whole group, so that the group teaches nothing.

Threshold: the first one. The mean reward, the real losses of all micro-batches and the norm of the gradient are looked
at after the backward pass and before the optimizer's step, on all processes; the loss of the very first step is a proof
(PRF004). The weights are looked at before each checkpoint and after the last step. With fp16 an infinite gradient is
not counted: the loss scaler skips that step, as it has to at its start. A reward of NaN is none: TRL reads it as no
answer. DeepSpeed makes its step inside the backward pass and keeps the norm to itself: there the losses and the weights
are seen. Sources: transformers 5.23.0 trainer.py, trl 1.16.0 grpo_trainer.py, accelerate 1.15.0 clip_grad_norm_.

Action: stop. No final model is written, and the last checkpoint is of a step before.
What to do: look at the reward, which may return NaN or infinity; a smaller learning_rate, or a smaller max_grad_norm;
bfloat16 in place of float16. Then resume from the last checkpoint.
"""

from grpo_recipes.worker.guards.alarm import Alarm, shown

ID = "GRD004"
NAME = "not_finite"
SAMPLING_FAILED = "probability tensor contains either"
REWARD = "the reward of this step is {}: a reward function returned it"
UPDATE = "{} of {} trained tensors are not finite already: an earlier update made them so"
WEIGHTS = "the weights are finite still, so it comes from this step: its reward, or a value too large for the dtype"


def in_step(what: str, value: float, reward: float | None, broken: int, tensors: int) -> Alarm:
    """An alarm before an optimizer step.

    what: "mean reward", "loss", "gradient norm" or "probability of a next token"; reward: the mean of this step where
    it is not finite, else None; broken: of how many trained tensors, of this process, some number is not finite.
    """
    because = WEIGHTS
    if reward is not None:
        because = REWARD.format(reward)
    elif broken:
        because = UPDATE.format(broken, tensors)
    return Alarm.of(value, f"a {what} of {shown(value)}", because, _fix(reward is not None))


def at_end(broken: int, tensors: int) -> Alarm:
    """An alarm for the weights that would be saved."""
    found = f"{broken} of {tensors} trained tensors hold NaN or infinity after the last step"
    return Alarm.of(float(broken), found, "the last update made them so", _fix(False))


def _fix(is_reward: bool) -> str:
    if is_reward:
        return "the reward function, which is to return None where it has no answer"
    return "a smaller training.learning_rate, or bfloat16 in place of float16, then --resume"
