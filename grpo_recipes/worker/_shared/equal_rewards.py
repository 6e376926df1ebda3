"""Finds the groups of a generation whose rewards have no variance, for the metric, the shim and the proof.

TRL adds up the weighted rewards in float32 and treats a standard deviation below 1e-8 as zero. Eight rewards of
1.0 + 0.2 have a deviation of 1.27e-7 there because the mean is rounded, so TRL treats a constant reward as varying.
Source: grpo_trainer.py of trl 0.14.0 to 1.16.0.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from trl.trainer import grpo_trainer

from grpo_recipes.contract.metric_names import (
    GROUPS_WITHOUT_VARIANCE,
    JUDGE_FAILED,
    SOURCE_REWARD,
    SOURCE_WITHOUT_VARIANCE,
)
from grpo_recipes.contract.prompt_shape import SOURCE_NAME
from grpo_recipes.worker._shared.inputs import replaced

# float32 rounds a weight, and a reward that varies by about its own size, to 2**-24. If two rewards cancel each other,
# their rounding errors leave at most four times that.
ROUNDING = 2.0**-22
# TRL tests a deviation with torch.isclose(..., 0), whose absolute tolerance this is.
NOTHING = 1e-8
# Called with two bool tensors, the equal groups of all processes and (B,) this process's completions, and with the
# batch that TRL trains on.
Listener = Callable[[Any, Any, dict[str, Any]], None]
_GENERATES, _PREPARES, _WATCHED = "_generate_and_score_completions", "_prepare_inputs", "_watched_groups"


def equal_groups(
    rewards: Any, weights: Any, size: int, *, normalized: bool = False, drops_unscored: bool = True
) -> Any:
    """Returns a (groups,) bool tensor on the CPU: whether all completions of a group have the same reward.

    rewards: (B, K) by function, NaN where a function returned None. weights: (K,). size: completions per group.
    normalized: each function's rewards are normalized before they are summed. drops_unscored: leave out completions
    without any reward; otherwise they count as 0.

    Rewards are the same if their weighted sums are equal, either exactly (so a rounded mean makes no difference) or in
    float32, in which TRL trains. If functions cancel each other, a difference within rounding does not count; the
    tolerance is relative to the functions' differences, not to the size of a reward.
    """
    given = rewards.detach().cpu().double().view(-1, size, rewards.shape[1])
    weights = weights.detach().cpu().double().expand(len(given), 1, -1)
    missing = given.isnan()
    is_in = ~missing.all(dim=2, keepdim=True) if drops_unscored else torch.ones_like(missing[..., :1])
    if normalized:
        given = given - given.nanmean(dim=1, keepdim=True)
        others = ((~missing).sum(dim=1, keepdim=True) - 1).clamp(min=1)
        weights = weights / ((given.masked_fill(missing, 0).square().sum(dim=1, keepdim=True) / others).sqrt() + 1e-4)
    given = given.masked_fill(missing, 0)
    in_float32 = (weights * given).float().sum(dim=2, keepdim=True)
    exact = (weights * (given - given[:, :1])).sum(dim=2, keepdim=True)
    varying = weights.abs() * _spread(given, is_in)
    rounded = ROUNDING * varying.sum(dim=2, keepdim=True) * ((varying > 0).sum(dim=2, keepdim=True) > 1)
    return ((_spread(exact, is_in) <= rounded) | (_spread(in_float32, is_in) <= NOTHING))[:, 0, 0]


def _spread(values: Any, is_in: Any) -> Any:
    """Returns (groups, 1, K): the largest minus the smallest value of each group, 0 for an empty group."""
    largest = values.masked_fill(~is_in, -torch.inf).amax(dim=1, keepdim=True)
    return (largest - values.masked_fill(~is_in, torch.inf).amin(dim=1, keepdim=True)).clamp(min=0)


def hands_advantages_on() -> bool:
    """Whether TRL computes advantages before the loss; trl 0.14 computes them inside it."""
    return hasattr(grpo_trainer, "gather")


def watch_groups(trainer: Any, listener: Listener) -> Callable[[], None]:
    """Calls `listener` after each training generation, before its loss, and returns a function that stops it.

    Listeners are called in the order in which they were added. Not on trl 0.14, which generates and trains in one
    method.
    """
    watched = getattr(trainer, _WATCHED, None) or _GroupWatch(trainer)
    watched.listeners.append(listener)
    return lambda: watched.listeners.remove(listener)


class _GroupWatch:
    """Wraps TRL's generating method, and records the rewards that TRL gathers there from all processes.

    drawn: the gathered rewards, and this process's rows that they belong to.
    """

    def __init__(self, trainer: Any) -> None:
        self.listeners: list[Listener] = []
        self.drawn: tuple[Any, Any] = (None, ())
        self._trainer = trainer
        name = _GENERATES if hasattr(trainer, _GENERATES) else _PREPARES
        self._generate = getattr(trainer, name)
        functools.update_wrapper(self, self._generate)
        setattr(trainer, name, self)
        setattr(trainer, _WATCHED, self)

    def __call__(self, *given: Any, **named: Any) -> Any:
        kept: list[Any] = []
        gather = grpo_trainer.gather  # called once, for the rewards

        def gathered(rewards: Any) -> Any:
            kept.append(gather(rewards))
            return kept[-1]

        with replaced(grpo_trainer, "gather", gathered):
            found = self._generate(*given, **named)
        if kept and self._trainer.model.training:
            equal, count = equal_groups_of(self._trainer, kept[-1]), len(found["advantages"])
            start = self._trainer.accelerator.process_index * count
            self.drawn = kept[-1], given[0]
            own = equal.repeat_interleave(self._trainer.num_generations)[start : start + count]
            for listener in tuple(self.listeners):
                listener(equal, own, found)
        return found


def count_equal_groups(trainer: Any, judges: Mapping[int, Sequence[str]] = {}, sources: Sequence[str] = ()) -> None:
    """Makes the trainer log, for each training generation, the share of groups without variance.

    judges: indices of the rewards that are judges, each with the sources that it does not judge; their missing scores
    are counted as well. sources: names of a mixture's sources; each gets its own share and mean reward.
    """

    def log(name: str, values: Any) -> None:
        kept = trainer._metrics
        # Older releases have a single list for training and evaluation.
        kept.get("train", kept)[name].append(values.double().mean().item())

    def note(equal: Any, rewards: Any, of_rows: Any = None) -> None:
        log(GROUPS_WITHOUT_VARIANCE, equal)
        asked = failed = torch.zeros(len(rewards), dtype=torch.bool)
        for place, others in judges.items():
            left_out = torch.tensor([sources.index(name) for name in others], dtype=torch.long)
            judged = torch.ones_like(asked) if of_rows is None else ~torch.isin(of_rows, left_out)
            asked, failed = asked | judged, failed | (judged & rewards[:, place].isnan().cpu())
        if asked.any():
            log(JUDGE_FAILED, failed[asked])

    def note_sources(equal: Any, rewards: Any, of_rows: Any) -> None:
        worth = (rewards * _weights(trainer, rewards).to(rewards)).nansum(dim=1).cpu()
        is_scored = ~rewards.isnan().all(dim=1).cpu()
        for index, name in enumerate(sources):
            is_own = of_rows == index
            if is_own.any():
                log(SOURCE_WITHOUT_VARIANCE.format(name), equal[is_own[:: trainer.num_generations]])
            if (is_own & is_scored).any():
                log(SOURCE_REWARD.format(name), worth[is_own & is_scored])

    def note_all(equal: Any, *_: Any) -> None:
        rewards, rows = getattr(trainer, _WATCHED).drawn
        if not sources:
            note(equal, rewards)
            return
        own = torch.tensor([sources.index(row[SOURCE_NAME]) for row in rows], device=rewards.device)
        of_rows = grpo_trainer.gather(own).cpu()
        note(equal, rewards, of_rows)
        note_sources(equal, rewards, of_rows)

    if hands_advantages_on():
        watch_groups(trainer, note_all)
        return
    accelerator, gather = trainer.accelerator, trainer.accelerator.gather_for_metrics

    def gathered(values: Any, *given: Any, **named: Any) -> Any:
        if trainer.model.training and values.ndim == 2:  # the rewards; trl 0.14 gathers nothing else in columns
            rewards = accelerator.gather(values)
            note(equal_groups_of(trainer, rewards), rewards)
        return gather(values, *given, **named)

    accelerator.gather_for_metrics = gathered


def _weights(trainer: Any, rewards: Any) -> Any:
    weights = getattr(trainer, "reward_weights", None)
    return torch.ones(rewards.shape[1]) if weights is None else weights


def equal_groups_of(trainer: Any, rewards: Any) -> Any:
    """Returns equal_groups() of a trainer's rewards, with its weights and aggregation."""
    # Newer releases leave out completions that no function scored, and use a variable for it.
    score = inspect.unwrap(getattr(grpo_trainer.GRPOTrainer, _GENERATES, grpo_trainer.GRPOTrainer.compute_loss))
    return equal_groups(
        rewards,
        _weights(trainer, rewards),
        trainer.num_generations,
        normalized=getattr(trainer, "multi_objective_aggregation", None) == "normalize_then_sum",
        drops_unscored="unscorable_mask" in score.__code__.co_varnames,
    )
