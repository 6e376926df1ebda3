"""Wraps the plan's rewards for TRL: functions with the plan's names, or model ids."""

import importlib
import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from grpo_recipes.contract.host.installing import install_command
from grpo_recipes.contract.plan import Reward
from grpo_recipes.contract.plan_sections import Package
from grpo_recipes.contract.prompt_shape import SOURCE_NAME
from grpo_recipes.worker._shared.prefill import Prefills, with_prefills
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.user_code.isolation import contain, own_copy
from grpo_recipes.worker.user_code.reward_call import note_completion
from grpo_recipes.worker.user_code.user_modules import check_sources, user_module

FEWEST_CALLS = 10


class Answered:
    """Checks that the rewards of a run return numbers.

    rewards: their names if all are functions; otherwise nothing is checked.
    """

    def __init__(self, rewards: list[str]) -> None:
        self._rewards = rewards
        self._calls: Counter[str] = Counter()
        self._has_answer = False
        self._nan = 0

    def look(self, reward: str, answer: Any) -> None:
        """Raises Refused if each reward was called several times, and none has returned a number."""
        if self._has_answer:
            return
        self._calls[reward] += 1
        given = [value for value in answer if value is not None] if isinstance(answer, list | tuple) else [0.0]
        nan = sum(isinstance(value, float) and math.isnan(value) for value in given)
        self._nan += nan
        self._has_answer = len(given) > nan
        if all(self._calls[name] >= FEWEST_CALLS for name in self._rewards):
            self.refuse_no_answer()

    def refuse_no_answer(self) -> None:
        """Raises Refused if rewards were called and none returned a number; for the end of a one-process run."""
        if self._has_answer or not self._rewards or not all(self._calls[name] for name in self._rewards):
            return
        raise Refused.of(
            f"no reward has returned a number: {', '.join(self._rewards)}",
            because=f"{self._nan} answers are NaN, the rest None; TRL counts neither, so the model learns nothing",
            fix="a reward that returns numbers; grpo-run preflight shows the returned values",
        )


RewardFunction = Callable[..., Any]
# Called with a reward's name, its answer, and its arguments; an exception ends the call.
Look = Callable[[str, Any, Mapping[str, Any]], None]


def check_reward_files(rewards: tuple[Reward, ...], user: Path) -> None:
    """Raises Refused if a user's reward file is missing or differs from the plan; runs none."""
    for reward in rewards:
        if reward.kind == "python":
            check_sources(reward, user)
        elif reward.package is not None and reward.package.name is not None:
            _check_release(reward.name, reward.package)


def check_judges(rewards: tuple[Reward, ...]) -> None:
    """Raises Refused if a judge's key is missing."""
    for reward in rewards:
        if reward.kind == "judge":
            from grpo_recipes.worker._shared.chat_client import headers

            key = reward.kwargs.get("key_variable")
            headers(reward.target, None if key is None else str(key))


def _check_release(name: str, package: Package) -> None:
    """Raises Refused if a reward's package has a different release than in the plan."""
    try:
        live = metadata.version(str(package.name))
    except metadata.PackageNotFoundError:
        live = None
    if live is None or package.release not in (None, live):
        planned = f"{package.name}=={package.release}" if package.release else str(package.name)
        raise Refused.of(
            f"reward {name}: {package.name} is {live or 'not installed'}, planned: {package.release or 'any release'}",
            because="a different release may compute a different reward",
            fix=f"{install_command([planned])}, or plan again",
        )


def load_rewards(
    rewards: tuple[Reward, ...], user: Path, look: Look | None = None, prefill: Prefills | None = None
) -> list[RewardFunction | str]:
    """Returns the reward functions in the plan's order; a reward model stays the string that TRL loads it by.

    prefill: of the prompts, None if the model writes whole answers.
    """
    answered = Answered([] if any(reward.kind == "model" for reward in rewards) else [each.name for each in rewards])
    return [
        reward.target if reward.kind == "model" else _bound(*_function(reward, user), answered, look, prefill)
        for reward in rewards
    ]


def _function(reward: Reward, user: Path) -> tuple[Reward, RewardFunction]:
    """Returns a reward and its function; a reward built by a factory has no keywords left to pass."""
    if reward.kind == "shipped":
        with contain(reward.name):
            module = importlib.import_module(f"grpo_recipes.rewards.{reward.target}")
        return reward, _member(module, reward.target, reward)
    if reward.kind == "python":
        with contain(reward.name):
            module = user_module(check_sources(reward, user))
        return reward, _member(module, reward.target.rpartition(":")[2], reward)
    if reward.kind == "package" and reward.package is not None:
        return _of_package(reward, reward.package)
    if reward.kind == "judge":
        from grpo_recipes.worker.user_code.judge import Judge  # imports jinja2 and an HTTP client, needed only here

        return replace(reward, kwargs={}), Judge(reward)
    raise Refused.of(f"reward {reward.name}: kind {reward.kind!r} is not one of shipped, python, package, model, judge")


def _of_package(reward: Reward, package: Package) -> tuple[Reward, RewardFunction]:
    name, _, member = reward.target.rpartition(":")
    with contain(reward.name):
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as problem:
            raise Refused.of(f"reward {reward.name}: {problem}", because=f"{name} is imported for it") from problem
        function = _member(module, member, reward)
        is_factory = _makes_a_reward(function) if package.is_factory is None else package.is_factory
        if not is_factory:
            return reward, function
        made = function(**reward.kwargs)
    if not callable(made):
        raise Refused.of(
            f"reward {reward.name}: {reward.target} returned {type(made).__name__}, which cannot be called",
            because="it takes neither completions nor **kwargs, so grpo-run called it as a factory of the reward",
        )
    return replace(reward, kwargs={}), made


def _makes_a_reward(function: RewardFunction) -> bool:
    """Whether the function is a factory of rewards, as user_files/functions/declared.py decides from source."""
    if isinstance(function, type):
        return True
    parameters = inspect.signature(function).parameters
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    return not takes_any and parameters.keys().isdisjoint(("prompts", "completions", "completion_ids"))


def _member(module: ModuleType, name: str, reward: Reward) -> RewardFunction:
    function = getattr(module, name, None)
    if not callable(function):
        raise Refused.of(f"reward {reward.name}: {module.__file__} has no function {name}")
    reward_function: RewardFunction = function
    return reward_function


class _OfSources:
    """The arguments of a reward for the rows of a mixture that it scores. has_none: whether there are no such rows.

    columns: those that the reward ever passed to TRL's log_extra, which takes one value per row of the step.
    """

    def __init__(self, reward: Reward, given: Mapping[str, Any], columns: set[str]) -> None:
        self.given, self.has_none, self._places = given, False, None
        names = given.get(SOURCE_NAME)
        if not reward.not_of or not isinstance(names, list):
            return
        count = len(names)
        places = [index for index, name in enumerate(names) if name not in reward.not_of]
        self._places, self._count, self.has_none = places, count, not places
        self.given = {
            name: [value[index] for index in places] if isinstance(value, list) and len(value) == count else value
            for name, value in given.items()
        }
        self._columns, self._logged, self._log = columns, dict[str, list[Any]](), given.get("log_extra")
        if self._log is not None:
            self.given["log_extra"] = self._take

    def _take(self, column: str, values: list[Any]) -> None:
        self._columns.add(column)
        self._logged.setdefault(column, []).extend(values)

    def whole(self, answer: Any) -> Any:
        """Returns the answer for all rows, None for those of other sources; likewise for log_extra."""
        if self._places is not None and self._log is not None:
            for column in sorted(self._columns):
                self._log(column, self._scatter(self._logged.get(column, [None] * len(self._places))))
        return self._scatter(answer)

    def _scatter(self, answer: Any) -> Any:
        """Returns one value per row of the step; unchanged if the answer does not match the scored rows."""
        if self._places is None or not isinstance(answer, list | tuple) or len(answer) != len(self._places):
            return answer
        values: list[Any] = [None] * self._count
        for index, value in zip(self._places, answer, strict=True):
            values[index] = value
        return values


def _bound(
    reward: Reward,
    function: RewardFunction,
    answered: Answered,
    look: Look | None,
    prefill: Prefills | None,
) -> RewardFunction:
    """Returns the function with the plan's keywords and name, for the rows of the sources that it scores.

    Each call gets its own copies: TRL passes the same lists to all rewards, and one that sorts a column would change
    the scores of the others. Not functools.partial: TRL names metrics after the function inside a partial, and a column
    of the data would override a bound keyword.
    """

    columns: set[str] = set()

    def look_at(answer: Any, own: _OfSources) -> Any:
        if look is not None:
            look(reward.name, answer, own.given)
        answered.look(reward.name, answer)
        return own.whole(answer)

    # TRL checks only functions, and would use an object's coroutine as its answer.
    is_awaited = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
    function = with_prefills(function, reward.target if reward.kind == "shipped" else None, prefill)
    if is_awaited:

        async def asynchronous(**given: Any) -> Any:
            own = _OfSources(reward, given, columns)
            if own.has_none:
                return own.whole([])
            with contain(reward.name, state=given.get("trainer_state")):
                answer = await function(**own_copy({**own.given, **reward.kwargs}))
            return look_at(answer, own)

        bound: RewardFunction = asynchronous
    else:

        def synchronous(**given: Any) -> Any:
            own = _OfSources(reward, given, columns)
            if own.has_none:
                return own.whole([])
            with contain(reward.name, state=given.get("trainer_state")):
                try:
                    answer = function(**own_copy({**own.given, **reward.kwargs}))
                    if isinstance(answer, Iterator):
                        answer = list(answer)
                except Exception as problem:
                    if reward.kind == "python":
                        note_completion(problem, function, own.given, reward.kwargs)
                    raise
            return look_at(answer, own)

        bound = synchronous
    bound.__name__ = reward.name
    bound.answered = answered  # type: ignore[attr-defined]
    return bound
