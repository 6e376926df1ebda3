"""A loss, a gradient or a trained weight is NaN or infinite, or a reward is infinite.

A single NaN or infinity permanently turns every weight that it reaches into NaN. transformers' logging_nan_inf_filter,
on by default, replaces the loss with the mean of earlier losses: the logs look fine although the model is ruined.
Sampling from such a model raises "probability tensor contains either inf, nan" or, on a GPU, a device-side assert that
does not name the cause. An infinite reward does less harm and is harder to see: recent releases of TRL replace the
advantages of its whole group with 0, so the group teaches nothing.

Threshold: the first occurrence. On all processes the guard checks the mean reward, the real losses of all micro-batches
and the gradient norm after the backward pass and before the optimizer's step; PRF004 checks the loss of the very first
step. The guard checks the weights before each checkpoint and after the last step. With fp16 an infinite gradient does
not count: the loss scaler skips that step, which is normal in the first steps. A reward of NaN does not count either:
TRL treats it as a missing reward. DeepSpeed takes its step inside the backward pass and does not expose the norm, so
there the guard checks only losses and weights. Sources: transformers' trainer.py, trl's grpo_trainer.py,
accelerate 1.15.0 clip_grad_norm_.

Action: stop. No final model is written, and the last checkpoint is from before that step.
What to do: check the reward, which may return NaN or infinity; use a smaller learning_rate or max_grad_norm, or
bfloat16 instead of float16. Then resume from the last checkpoint. On a Hopper or Blackwell GPU with torch 2.11 or
newer, check run.json for the shim attention_gradient: without it cuDNN's attention can return NaN (SHM026), so plan the
recipe again.
"""

from grpo_recipes.worker.guards.alarm import Alarm, figure

ID = "GRD004"
NAME = "not_finite"
SAMPLING_FAILED = "probability tensor contains either"
REWARD = "a reward function returned a value that makes this step's reward {}"
UPDATE = "{} of {} trained tensors already contain NaN or infinity: an earlier update caused it"
WEIGHTS = "the weights are still finite, so this step caused it: its reward, or a value too large for the dtype"


def in_step(what: str, value: float, reward: str | None, broken: int, tensors: int) -> Alarm:
    """Returns the alarm before an optimizer step.

    what: "mean reward", "loss", "gradient norm" or "probability of a next token"; reward: the mean of this step and the
    rewards with an infinite mean, None if it is finite; broken: how many of this process's trained tensors contain a
    number that is not finite.
    """
    because = WEIGHTS
    if reward is not None:
        because = REWARD.format(reward)
    elif broken:
        because = UPDATE.format(broken, tensors)
    return Alarm.of(value, f"a {what} of {figure(value)}", because, _fix(reward is not None))


def at_end(broken: int, tensors: int) -> Alarm:
    """Returns the alarm for the weights that are about to be saved."""
    message = f"{broken} of {tensors} trained tensors contain NaN or infinity after the last step"
    return Alarm.of(float(broken), message, "the last update caused it", _fix(False))


def _fix(is_reward: bool) -> str:
    if is_reward:
        return "return a finite number from the reward function, or None for no reward"
    return "a smaller training.learning_rate, or bfloat16 instead of float16, then --resume"
