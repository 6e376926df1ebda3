"""Lets a completion that a reward or judge failed on leave its group, instead of ending the run or counting as 0.

A judge without a score has failed on that completion. A function that raises is called again with fewer completions,
until those that it raises for are found, and then once with all others. If it raises for all of them or for none alone,
or for too long, its exception ends the run as before: then no completion is the cause.
"""

import functools
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

import torch

from grpo_recipes.contract.findings.findings_text import Mistake
from grpo_recipes.contract.plan import Reward
from grpo_recipes.contract.prompt_shape import SOURCE_NAME
from grpo_recipes.worker._shared.equal_rewards import FAILED
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.trainer.observed import does
from grpo_recipes.worker.user_code.isolation import RewardLeft
from grpo_recipes.worker.user_code.reward_call import text_of

MOST_TRIED_S = 60.0


def let_failed_leave(trainer: Any, rewards: Sequence[Reward]) -> None:
    """Wraps the trainer's reward functions: those of the plan, and after them an environment's own."""
    for index, function in enumerate(trainer.reward_funcs):
        if not isinstance(function, torch.nn.Module):
            is_planned = index < len(rewards)
            own = rewards[index] if is_planned else Reward("python", trainer.reward_func_names[index], "", 1.0)
            trainer.reward_funcs[index] = leave_failed_out(function, own)


def leave_failed_out(function: Callable[..., Any], reward: Reward) -> Callable[..., Any]:
    """Returns the reward function for TRL, with FAILED for each completion that it failed on."""
    report = _Told(reward)
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def asynchronous(**given: Any) -> list[Any]:
            return await _call(function, reward, given, report)

        return asynchronous

    @functools.wraps(function)
    def synchronous(**given: Any) -> list[Any]:
        async def at_once(**some: Any) -> Any:
            return function(**some)

        return _run_coroutine(_call(at_once, reward, given, report))

    return synchronous


class _Told:
    """Prints failures the first time, and at 10, 100, ... of them."""

    def __init__(self, reward: Reward) -> None:
        self._name, self._count = reward.name, 0

    def add(self, failed: int, count: int, problem: Exception) -> None:
        before, self._count = self._count, self._count + failed
        if not before or len(str(before)) < len(str(self._count)):
            text = f"{type(problem).__name__}: {text_of(problem)}".rstrip(": ")[:200]
            print(
                f"reward {self._name}: raised for {failed} of {count} completions, {self._count} so far, "
                f"which leave their groups: {text}",
                flush=True,
            )


def _run_coroutine(running: Coroutine[Any, Any, list[Any]]) -> list[Any]:
    """Returns the result of a coroutine that waits for nothing."""
    try:
        running.send(None)
    except StopIteration as end:
        return list(end.value)
    raise RuntimeError("the coroutine waits")


async def _call(
    function: Callable[..., Awaitable[Any]], reward: Reward, given: Mapping[str, Any], report: _Told
) -> list[Any]:
    count = len(given["completions"])
    try:
        values = list(await function(**given))
    except (Mistake, RewardLeft, MemoryError):
        raise
    except Exception as problem:
        failed = await _failing(function, given, list(range(count)), time.monotonic() + MOST_TRIED_S)
        if len(failed) in (0, count):
            raise
        others = [index for index in range(count) if index not in failed]
        some = _only(given, others)
        if (log := given.get("log_extra")) is not None:  # takes a value for each completion
            some["log_extra"] = lambda column, own: log(column, _scatter(own, others, [None] * count))
        values = _scatter(await function(**some), others, [FAILED] * count)
        report.add(len(failed), count, problem)
    if reward.kind == "judge":
        sources = given.get(SOURCE_NAME) or [None] * count
        values = [
            FAILED if value is None and source not in reward.not_of else value
            for value, source in zip(values, sources, strict=True)
        ]
    return _missing(values, reward) if any(value is None or value is FAILED for value in values) else values


async def _failing(
    function: Callable[..., Awaitable[Any]], given: Mapping[str, Any], places: list[int], until: float
) -> set[int]:
    """Returns the indices whose completions a function raises for, all if it takes too long to find them."""
    if len(places) == 1 or time.monotonic() > until:
        return set(places)
    failing: set[int] = set()
    silent = {name: _ignore for name in ("log_metric", "log_extra") if name in given}
    for half in (places[: len(places) // 2], places[len(places) // 2 :]):
        try:
            await function(**(_only(given, half) | silent))
        except (Mistake, RewardLeft, MemoryError):
            raise
        except Exception:
            failing |= await _failing(function, given, half, until)
    return failing


def _only(given: Mapping[str, Any], places: Sequence[int]) -> dict[str, Any]:
    """Returns the arguments for some of the completions."""
    count = len(given["completions"])
    return {
        name: [value[index] for index in places] if isinstance(value, list) and len(value) == count else value
        for name, value in given.items()
    }


def _scatter(some: Iterable[Any], places: Sequence[int], of_all: list[Any]) -> list[Any]:
    """Puts values at their places in a list, and returns it."""
    for index, value in zip(places, some, strict=True):
        of_all[index] = value
    return of_all


def _ignore(*_: Any) -> None:
    """Replaces TRL's log_extra and log_metric."""


def _missing(values: list[Any], reward: Reward) -> list[Any]:
    """Returns the values with NaN for None, which trl 0.15 cannot take. Raises Refused on trl 0.14."""
    if not does("advantages precede the loss"):
        raise Refused.of(
            f"reward {reward.name} has no number for a completion, and this trl cannot leave it out of its group",
            because="trl 0.14 computes advantages inside its loss, from a number for each completion",
            fix="trl 0.15 or newer, or a number for each completion",
        )
    return [float("nan") if value is None else value for value in values]
