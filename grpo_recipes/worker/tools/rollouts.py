"""The user's rollout as TRL takes it: what it returns is looked at before anything is trained on it."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grpo_recipes.contract.planned_tools import Rollout
from grpo_recipes.worker._shared.refused import Refused
from grpo_recipes.worker.user_code.contained import contained

IDS, MASK, LOGPROBS = ("prompt_ids", "completion_ids"), "env_mask", "logprobs"


def rollout_function(planned: Rollout, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that TRL asks for completions. What does not fit the prompts raises Refused."""

    @functools.wraps(function)
    def rollout(prompts: list[Any], trainer: Any) -> Any:
        with contained(planned.name, "rollout"):
            found = function(prompts, trainer)
        wrong = _wrong(found, len(prompts))
        if wrong is not None:
            raise Refused.of(
                f"rollout {planned.name} returned {wrong}",
                because=[f"it was called with {len(prompts)} prompts, one for each completion"],
                fix="a dict of prompt_ids, completion_ids, logprobs or None, and env_mask, each a list with one entry"
                " for each prompt",
            )
        return found

    return rollout


def _wrong(found: object, count: int) -> str | None:
    """What is wrong with an answer, in words that follow "returned"; None where it can be trained on."""
    if not isinstance(found, Mapping):
        return f"{type(found).__name__}, not a dict"
    missing = [name for name in (*IDS, LOGPROBS) if name not in found]
    if missing:
        return f"no {' and no '.join(missing)}"
    given = [name for name in (*IDS, LOGPROBS, MASK) if found.get(name) is not None]
    for name in given:
        if not isinstance(found[name], Sequence) or len(found[name]) != count:
            size = f" of {len(found[name])}" if isinstance(found[name], Sequence) else ""
            return f"{type(found[name]).__name__}{size} for {name}"
    if None in [found[name] for name in IDS]:
        return "None for the tokens"
    for place, ids in enumerate(found["completion_ids"]):
        if not len(ids):
            return f"no token for completion {place + 1}"
        for name in (MASK, LOGPROBS):
            if name in given and len(found[name][place]) != len(ids):
                return f"{len(found[name][place])} of {name} for the {len(ids)} tokens of completion {place + 1}"
    return None
