"""A reward function returns a list, one number for each completion.

TRL calls it once for a whole batch. One that returns a single number, text or nothing raises TypeError or ValueError
after the first generation. It is judged by its source, where all that it returns is certain to be no list; a list of
the wrong length or of words shows in `grpo-run preflight`.
"""

import os
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.user_files.functions.definitions import Definition, definition
from grpo_recipes.user_files.returned_values import returns_no_list
from grpo_recipes.user_files.reward_names import names_module

ID = "RWD005"


def check(context: Context) -> Iterator[Finding]:
    rewards = context.value("rewards")
    for index, reward in enumerate(rewards if isinstance(rewards, list) else []):
        if reward.get("python") is None or names_module(str(reward["python"])):
            continue
        place = ("rewards", index, "python")
        file, _, name = str(reward["python"]).rpartition(":")
        try:
            found = definition(os.path.normpath(os.path.join(context.source.directory(place), file)), name)
        except (OSError, SyntaxError, ValueError):
            continue
        returned = returns_no_list(found.node, found.tree) if isinstance(found, Definition) else None
        if returned is not None:
            yield context.finding(
                ID,
                f"{name} returns {returned}, not a list",
                "rewards",
                because=["TRL calls it once for all completions of a batch, and takes one number for each"],
                fix="return [... for completion in completions]",
                mark=context.source.mark(place),
            )
