"""The rewards of the plan as TRL takes them: functions with the plan's names, or model ids."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from grpo_recipes.plan import Reward
from grpo_recipes.worker.digest import sha256_of
from grpo_recipes.worker.stopped import Stopped

RewardFunction = Callable[..., Any]


def check_reward_files(rewards: tuple[Reward, ...], user: Path) -> None:
    """Raises Stopped if a user's reward file is missing or not the planned one; runs none of them."""
    for reward in rewards:
        if reward.kind == "python":
            _checked_file(reward, user)


def load_rewards(rewards: tuple[Reward, ...], user: Path) -> list[RewardFunction | str]:
    """The reward functions in the order of the plan; a reward model stays the string that TRL loads it by."""
    return [reward.target if reward.kind == "model" else _bound(reward, _function(reward, user)) for reward in rewards]


def _function(reward: Reward, user: Path) -> RewardFunction:
    if reward.kind == "shipped":
        return _member(importlib.import_module(f"grpo_recipes.rewards.{reward.target}"), reward.target, reward)
    if reward.kind == "python":
        return _member(_user_module(_checked_file(reward, user)), reward.target.rpartition(":")[2], reward)
    raise Stopped(f"reward {reward.name}: kind {reward.kind!r} is none of shipped, python, model")


def _member(module: ModuleType, name: str, reward: Reward) -> RewardFunction:
    function = getattr(module, name, None)
    if not callable(function):
        raise Stopped(f"reward {reward.name}: {module.__file__} has no function {name}")
    found: RewardFunction = function
    return found


def _checked_file(reward: Reward, user: Path) -> Path:
    """The copy of a user's file in the run folder, whose digest is the planned one."""
    path = user / Path(reward.target.rpartition(":")[0]).name
    if not path.is_file():
        raise Stopped(f"reward {reward.name}: {path} does not exist")
    found = sha256_of(path)
    if found != reward.sha256:
        raise Stopped(
            f"reward {reward.name}: {path} changed since the plan was made\n"
            f"  = because: its sha256 is {found[:12]}, the plan has {str(reward.sha256)[:12]}\n"
            f"  = fix: plan again, and look at what changed"
        )
    return path


def _user_module(path: Path) -> ModuleType:
    """The file as a module of a name that no package has; loaded once for all rewards in it."""
    name = f"grpo_run_user_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Stopped(f"{path}: not a python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs: dataclasses and pickle look their module up by name
    spec.loader.exec_module(module)
    return module


def _bound(reward: Reward, function: RewardFunction) -> RewardFunction:
    """The function with the plan's keywords and name.

    Not functools.partial: TRL names metrics by what is inside a partial, and a column of the data would win
    over a bound keyword.
    """
    if inspect.iscoroutinefunction(function):

        async def asynchronous(**given: Any) -> Any:
            return await function(**{**given, **reward.kwargs})

        bound: RewardFunction = asynchronous
    else:

        def synchronous(**given: Any) -> Any:
            return function(**{**given, **reward.kwargs})

        bound = synchronous
    bound.__name__ = reward.name
    return bound
