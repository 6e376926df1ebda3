"""Loads the parts of multi-turn completions for TRL: tools, an environment, a rollout."""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import EnvironmentClass, Rollout
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.tools.environments import environment_factory
from grpo_recipes.worker.tools.tally import Tally
from grpo_recipes.worker.tools.tool_functions import load_module, load_tools
from grpo_recipes.worker.tools.tool_process import ToolProcess
from grpo_recipes.worker.user_code.isolation import contain, own_copy
from grpo_recipes.worker.user_code.user_modules import check_sources

Factories = Callable[[], Any] | dict[str, Callable[[], Any]]


class Turns:
    """The user's code for a training's turns. Call close() when it is over, however it ended.

    arguments: keywords of GRPOTrainer, {} if every completion is a single turn of the model alone.
    """

    def __init__(self, arguments: dict[str, Any], tally: Tally, process: ToolProcess | None) -> None:
        self.arguments, self.tally, self._process = arguments, tally, process
        # The environment's factory, or several by name; None without environments.
        self.environment: Factories | None = arguments.get("environment_factory")

    def close(self) -> None:
        """Ends the tools' process."""
        if self._process is not None:
            self._process.close()


def load_turns(plan: Plan, user: Path) -> Turns:
    """Loads the plan's tools, environment and rollout. user: the folder of the user's files. Raises Refused."""
    arguments: dict[str, Any] = {}
    tally = Tally()
    functions, process = load_tools(plan.tools, user, tally)
    if functions:
        arguments["tools"] = functions
    if plan.environment_class is not None:
        own = _load_class(plan.environment_class, user)
        arguments["environment_factory"] = environment_factory(plan.environment_class, own, tally, user)
    if plan.environment_classes:
        arguments["environment_factory"] = {
            name: environment_factory(planned, _load_class(planned, user), tally, user, name)
            for name, planned in plan.environment_classes.items()
        }
    if plan.rollout is not None:
        arguments["rollout_func"] = rollout_function(plan.rollout, _load(plan.rollout, user, "rollout"))
    return Turns(arguments, tally, process)


def _load_class(planned: EnvironmentClass, user: Path) -> type:
    own = _load(planned, user, "environment")
    if not isinstance(own, type):
        raise Refused.of(f"environment {planned.name}: {planned.target} is not a class")
    return own


def _load(planned: EnvironmentClass | Rollout, user: Path, kind: str) -> Any:
    module = load_module(planned.name, kind, check_sources(planned, user, kind))
    definition = getattr(module, planned.target.rpartition(":")[2], None)
    if not callable(definition):
        raise Refused.of(f"{kind} {planned.name}: {module.__file__} has no {planned.target.rpartition(':')[2]}")
    return definition


IDS, MASK, LOGPROBS = ("prompt_ids", "completion_ids"), "env_mask", "logprobs"


def rollout_function(planned: Rollout, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function that TRL calls for completions. It raises Refused if results do not fit the prompts."""

    @functools.wraps(function)
    def rollout(prompts: list[Any], trainer: Any) -> Any:
        with contain(planned.name, "rollout"):
            answer = function(own_copy(prompts), trainer)
        wrong = _wrong(answer, len(prompts))
        if wrong is not None:
            raise Refused.of(
                f"rollout {planned.name} returned {wrong}",
                because=[f"it was called with {len(prompts)} prompts, one for each completion"],
                fix="return a dict of prompt_ids, completion_ids, logprobs (or None) and env_mask, each a list with one"
                " entry for each prompt",
            )
        return answer

    return rollout


def _wrong(answer: object, count: int) -> str | None:
    """Returns what is wrong with an answer, to follow "returned"; None if it can be trained on."""
    if not isinstance(answer, Mapping):
        return f"{type(answer).__name__}, not a dict"
    missing = [name for name in (*IDS, LOGPROBS) if name not in answer]
    if missing:
        return f"no {' and no '.join(missing)}"
    given = [name for name in (*IDS, LOGPROBS, MASK) if answer.get(name) is not None]
    for name in given:
        if not isinstance(answer[name], Sequence) or len(answer[name]) != count:
            size = f" of {len(answer[name])}" if isinstance(answer[name], Sequence) else ""
            return f"{type(answer[name]).__name__}{size} for {name}"
    if None in [answer[name] for name in IDS]:
        return "None for the tokens"
    for index, ids in enumerate(answer["completion_ids"]):
        if not len(ids):
            return f"no token for completion {index + 1}"
        for name in (MASK, LOGPROBS):
            if name in given and len(answer[name][index]) != len(ids):
                return f"{len(answer[name][index])} of {name} for the {len(ids)} tokens of completion {index + 1}"
    return None
