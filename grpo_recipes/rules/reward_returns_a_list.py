"""A reward function returns a list, one number for each completion.

TRL calls it once for a whole batch. A function that returns a single number, a string, a map, a list of strings or
nothing raises TypeError or ValueError after the first generation. A `return` inside the loop over the completions ends
it at the first one: trl 1.10 and newer raise ValueError for a list of one reward; older releases repeat it for the
whole batch, so rewards within a group never differ and nothing is learned. The same constant for every completion
trains nothing either. The rule reads the source and reports what is certain; `grpo-run preflight` finds other lists of
the wrong length.
"""

import os
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules.reward_columns_exist import reward_function
from grpo_recipes.user_files.functions.definitions import Definition
from grpo_recipes.user_files.reward_imports import names_module

ID = "RWD005"
COUNTED = ">=1.10.0"
"""The first TRL that counts the rewards of a function."""


def check(context: Context) -> Iterator[Finding]:
    trl = context.stack.version("trl")
    for index, reward in enumerate(context.items("rewards")):
        if reward.get("python") is None or names_module(str(reward["python"])):
            continue
        target = reward_function(context, index, reward)
        if target is None:
            continue
        from grpo_recipes.user_files.functions.reward_body import line_of_first_return
        from grpo_recipes.user_files.returned_values import constant_of, returns_no_list

        if reward.get("weight") and (constant := constant_of(target.node)) is not None:
            yield _constant(context, index, target, constant)
        returned, line = returns_no_list(target.node, target.tree), line_of_first_return(target.node)
        if returned is None and line is None:
            continue
        name = str(reward["python"]).rpartition(":")[2]
        because = ["TRL calls it once for all completions of a batch, and needs one number for each"]
        if line is not None:
            because.append(f"{os.path.basename(target.path)}:{line}: this return ends the loop at the first completion")
        is_raised = returned is not None or (trl is not None and is_within(trl, COUNTED))
        yield context.finding(
            f"{name} returns {returned}, not a list of numbers"
            if returned
            else f"{name} returns only the reward of the first completion",
            "rewards",
            because,
            fix="move the return after the loop" if line else "return [... for completion in completions]",
            severity="error" if is_raised else "warning",
            mark=context.source.mark(("rewards", index, "python")),
        )


def _constant(context: Context, index: int, target: Definition, constant: float) -> Finding:
    return context.finding(
        f"every completion gets the reward {constant:g}",
        "rewards",
        ["a reward that never differs within a group trains nothing", f"it is declared at {target.at}"],
        fix="a reward that depends on the completion, or weight: 0 to measure only",
        severity="warning",
        mark=context.source.mark(("rewards", index, "python")),
    )
