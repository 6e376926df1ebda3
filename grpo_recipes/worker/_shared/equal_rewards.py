"""Watches the rewards of each generation: groups without variance, and completions that leave their group.

TRL adds up the weighted rewards in float32 and treats a standard deviation below 1e-8 as zero. Eight rewards of
1.0 + 0.2 have a deviation of 1.27e-7 there because the mean is rounded, so TRL treats a constant reward as varying.
Source: grpo_trainer.py of trl 0.14.0 to 1.16.0.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any

import torch
from trl.trainer import grpo_trainer

from grpo_recipes.contract.metric_names import (
    COMPLETIONS_FAILED,
    GROUPS_WITHOUT_VARIANCE,
    JUDGE_FAILED,
    SOURCE_REWARD,
    SOURCE_WITHOUT_VARIANCE,
)
from grpo_recipes.contract.plan import Reward
from grpo_recipes.contract.prompt_shape import SOURCE_NAME
from grpo_recipes.worker._shared.replacing import refuse_unknown_member, replace_temporarily

# float32 rounds a weight, and a reward that varies by about its own size, to 2**-24. If two rewards cancel each other,
# their rounding errors leave at most four times that.
ROUNDING = 2.0**-22
# TRL tests a deviation with torch.isclose(..., 0), whose absolute tolerance this is.
NOTHING = 1e-8
# A NaN, which TRL takes as a missing reward, whose lowest bit of float32 marks a failure of the reward or judge.
_FAILED_BITS = 0x7FC00001
FAILED: float = struct.unpack("<f", struct.pack("<I", _FAILED_BITS))[0]
# Called with two bool tensors, the equal groups of all processes and (B,) this process's completions, and with the
# batch that TRL trains on.
Listener = Callable[[Any, Any, dict[str, Any]], None]
_WATCHED = "watched groups"


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


def is_failed(rewards: Any) -> Any:
    """Whether each reward of a float32 tensor is FAILED."""
    return rewards.view(torch.int32) == _FAILED_BITS


def hands_advantages_on(trainer: Any) -> bool:
    """Whether TRL computes advantages before the loss; trl 0.14 computes them inside it."""
    return bool(trainer.seams.does("advantages precede the loss"))


def watch_groups(trainer: Any, place: str, listener: Listener) -> Callable[[], None]:
    """Calls `listener` after each training generation, before its loss, and returns a function that stops it.

    place: among the listeners in worker/trainer/order.py. Not on trl 0.14, which generates and trains in one method.
    """
    return _watched(trainer).add(place, listener)


def _watched(trainer: Any) -> "_GroupWatch":
    if _WATCHED not in trainer.seams.own:
        trainer.seams.own[_WATCHED] = _GroupWatch(trainer)
    watch: _GroupWatch = trainer.seams.own[_WATCHED]
    return watch


class _GroupWatch:
    """Stands around TRL's generating method, and records the rewards that TRL gathers there from all processes.

    A completion that a reward or judge failed on loses its other rewards, so that it leaves its group.
    drawn: the gathered rewards, and this process's rows that they belong to. advantages: computes those of rewards with
    missing ones, None if TRL's are right.
    """

    def __init__(self, trainer: Any) -> None:
        self.advantages: Callable[[Any], Any] | None = None
        self.drawn: tuple[Any, Any] = (None, ())
        self._trainer = trainer
        self._listeners: list[tuple[int, Listener]] = []
        made = "completions are made"
        trainer.seams.change(made if trainer.seams.has(made) else f"{made} in the batch", "groups", self._made)

    def add(self, place: str, listener: Listener) -> Callable[[], None]:
        """Adds a listener, and returns a function that removes it."""
        entry = self._trainer.seams.position("groups are known", place), listener
        self._listeners.append(entry)
        self._listeners.sort(key=lambda pair: pair[0])
        return lambda: self._listeners.remove(entry)

    def _made(self, generate: Callable[..., Any], *given: Any, **named: Any) -> Any:
        masked: list[Any] = []
        gather = grpo_trainer.gather  # called once, for the rewards

        def gathered(rewards: Any) -> Any:
            of_all = gather(rewards)
            failed = is_failed(of_all)
            lost = failed.any(dim=1, keepdim=True) & ~failed
            masked.append(of_all.masked_fill(lost, torch.nan) if lost.any() else of_all)
            return masked[-1]

        with replace_temporarily(grpo_trainer, "gather", gathered):
            batch = generate(*given, **named)
        if self._trainer.model.training:
            if not masked:
                raise refuse_unknown_member("gather", "TRL made completions without gathering their rewards by it")
            equal, count = equal_groups_of(self._trainer, masked[-1]), len(batch["advantages"])
            start = self._trainer.accelerator.process_index * count
            self.drawn = masked[-1], given[0]
            if self.advantages is not None and masked[-1].isnan().any():
                batch["advantages"] = self.advantages(masked[-1])[start : start + count]
            own = equal.repeat_interleave(self._trainer.num_generations)[start : start + count]
            for _, listener in tuple(self._listeners):
                listener(equal, own, batch)
        return batch


def count_equal_groups(trainer: Any, rewards: Sequence[Reward] = (), sources: Sequence[str] = ()) -> None:
    """Makes the trainer log, for each training generation, the share of groups without variance.

    It also logs the share of completions that a reward failed on, from the first one on, and for judges among the
    rewards the share of the completions that they were asked about. sources: names of a mixture's sources; each gets
    its own share and mean reward.
    """
    judges = [index for index, reward in enumerate(rewards) if reward.kind == "judge"]
    has_failed = False

    def log(name: str, values: Any) -> None:
        trainer.seams.figures()[name].append(values.double().mean().item())

    def note(equal: Any, rewards: Any) -> None:
        nonlocal has_failed
        log(GROUPS_WITHOUT_VARIANCE, equal)
        failed = is_failed(rewards)
        asked = (failed | ~rewards.isnan())[:, judges].any(dim=1)
        if asked.any():
            log(JUDGE_FAILED, failed[:, judges].any(dim=1)[asked])
        has_failed = has_failed or bool(failed.any())
        if has_failed:
            log(COMPLETIONS_FAILED, failed.any(dim=1))

    def note_sources(equal: Any, rewards: Any, of_rows: Any) -> None:
        worth = (rewards * reward_weights(trainer, rewards).to(rewards)).nansum(dim=1).cpu()
        is_scored = ~rewards.isnan().all(dim=1).cpu()
        for index, name in enumerate(sources):
            is_own = of_rows == index
            if is_own.any():
                log(SOURCE_WITHOUT_VARIANCE.format(name), equal[is_own[:: trainer.num_generations]])
            if (is_own & is_scored).any():
                log(SOURCE_REWARD.format(name), worth[is_own & is_scored])

    def note_all(equal: Any, *_: Any) -> None:
        rewards, rows = _watched(trainer).drawn
        note(equal, rewards)
        if not sources:
            return
        own = torch.tensor([sources.index(row[SOURCE_NAME]) for row in rows], device=rewards.device)
        of_rows = grpo_trainer.gather(own).cpu()
        note_sources(equal, rewards, of_rows)

    if hands_advantages_on(trainer):
        watch_groups(trainer, "shares without variance", note_all)
        return

    def look(_: Any, values: Any, *__: Any, **___: Any) -> None:
        if trainer.model.training and values.ndim == 2:  # the rewards; trl 0.14 gathers nothing else in columns
            rewards = trainer.accelerator.gather(values)
            note(equal_groups_of(trainer, rewards), rewards)

    trainer.seams.observe("values are gathered", "groups", look)


def reward_weights(trainer: Any, rewards: Any) -> Any:
    weights = trainer.seams.value("reward_weights")
    return torch.ones(rewards.shape[1]) if weights is None else weights


def equal_groups_of(trainer: Any, rewards: Any) -> Any:
    """Returns equal_groups() of a trainer's rewards, with its weights and aggregation."""
    return equal_groups(
        rewards,
        reward_weights(trainer, rewards),
        trainer.num_generations,
        normalized=trainer.seams.value("multi_objective_aggregation") == "normalize_then_sum",
        drops_unscored=leaves_unscored_out(trainer),
    )


def leaves_unscored_out(trainer: Any) -> bool:
    """Whether a completion that no function scored is left out of its group, by TRL or by replace_advantages."""
    if trainer.seams.does("completions without a reward leave their group"):
        return True
    return _WATCHED in trainer.seams.own and _watched(trainer).advantages is not None


def replace_advantages(trainer: Any, advantages: Callable[[Any], Any]) -> None:
    """Replaces TRL's advantages of a generation with missing rewards, before any listener gets them.

    advantages: returns (B,) from the rewards (B, K) of all processes, NaN where a function gave none.
    """
    _watched(trainer).advantages = advantages
