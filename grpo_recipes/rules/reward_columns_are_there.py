"""A reward gets the columns that it reads.

A shipped reward reads named columns, e.g. `solution`; so does a function whose parameter has no default. They come from
`dataset.columns` or from the data set's own columns, which are looked up in local .jsonl and .csv files. A missing one
is a TypeError at the first reward, after the first generation.
"""

import os
from collections.abc import Iterator

from grpo_recipes.facts.local_files import columns_of, functions_of, local_path
from grpo_recipes.finding import Finding, Patch
from grpo_recipes.rewards.catalog import shipped_rewards
from grpo_recipes.rules.context import Context
from grpo_recipes.rules.reward_source_is_there import CALLED_WITH

ID = "RWD002"


def _available(context: Context) -> frozenset[str] | None:
    """The columns that rewards receive; None when the data set's own are not known."""
    path = local_path(context.text("dataset.path"), context.source.directory(("dataset", "path")))
    if path is None or not os.path.isfile(path):
        return None
    try:
        own = columns_of(path)
    except (OSError, ValueError):
        return None
    return None if own is None else frozenset(own) | frozenset(context.mapping("dataset.columns"))


def _needed(context: Context, index: int, reward: dict[str, object]) -> tuple[str, list[str]]:
    """The reward's name and the columns that it cannot do without."""
    options = reward.get("options")
    bound = set(options) if isinstance(options, dict) else set()
    shipped = shipped_rewards().get(str(reward.get("name")))
    if shipped is not None:
        return str(reward["name"]), [c for c in shipped.columns if c not in bound]
    if reward.get("python") is None:
        return "", []
    file, _, name = str(reward["python"]).rpartition(":")
    directory = context.source.directory(("rewards", index, "python"))
    try:
        function = functions_of(os.path.normpath(os.path.join(directory, file))).get(name)
    except (OSError, SyntaxError, ValueError):
        return "", []
    required = function.required if function is not None else ()
    return name, [p for p in required if p not in CALLED_WITH and p not in bound]


def check(context: Context) -> Iterator[Finding]:
    rewards = context.value("rewards")
    available = _available(context)
    if available is None:
        return
    for index, reward in enumerate(rewards if isinstance(rewards, list) else []):
        name, needed = _needed(context, index, reward)
        missing = [column for column in needed if column not in available]
        if missing:
            fix = f'columns: {{{missing[0]}: "{{{{ {sorted(available)[0]} }}}}"}}'
            yield context.finding(
                ID,
                f"reward {name} reads column {', '.join(missing)}, which the data does not have",
                "rewards",
                because=[f"it gets {', '.join(sorted(available))}"],
                fix=f"{fix} under dataset",
                patch=[Patch(("dataset", "columns", missing[0]), f"{{{{ {sorted(available)[0]} }}}}")],
                mark=context.source.mark(("rewards", index)),
            )
