"""A reward reads messages as messages and strings as strings.

With conversational prompts TRL passes each completion as a list of messages, `[{"role": "assistant", "content": ...}]`;
with plain prompts as a string. A reward for one kind raises on the other after the first generation (`re.search(p, c)`,
`c.strip()`; `c[0]["content"]`), or gives every completion the same reward: `"x" in c` is always false for a list of
messages, and `len(c)` is 1. The rule judges only code that certainly runs, and skips functions that check types.
"""

import os
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.training_rows import is_conversational
from grpo_recipes.rules.reward_columns_exist import reward_function
from grpo_recipes.user_files.reward_imports import names_module

ID = "RWD011"
MAKE_TURNS = ("tools", "environment.python", "rollout.python")
_LONGEST_CODE = 60


def check(context: Context) -> Iterator[Finding]:
    for index, reward in enumerate(context.items("rewards")):
        if reward.get("python") is not None and (are_messages := is_conversational(context)) is not None:
            yield from _of_one(context, index, reward, are_messages)


def _of_one(context: Context, index: int, reward: dict[str, object], are_messages: bool) -> Iterator[Finding]:
    definition = reward_function(context, index, reward)
    if definition is None:
        return
    from grpo_recipes.user_files.functions.misread_elements import misread_elements

    has_turns = any(context.value(key) for key in MAKE_TURNS)
    misread = misread_elements(definition.node, definition.tree, are_messages=are_messages, has_turns=has_turns)
    if misread is None:
        return
    name = str(reward["python"]).rpartition(":")[2]
    code = misread.code if len(misread.code) <= _LONGEST_CODE else f"{misread.code[:_LONGEST_CODE]}..."
    built = context.value("dataset.prompt") is not None
    why = "as prompt_format says" if built else "in the first row"
    kinds = "messages, so TRL passes lists of messages" if are_messages else "plain text, so TRL passes strings"
    yield context.finding(
        f"{name} reads {'lists of messages as strings' if are_messages else 'strings as messages'}",
        "rewards",
        [
            f"{os.path.basename(definition.path)}:{misread.line}: {code} is {misread.result}",
            f"the prompts are {kinds} ({why})",
        ],
        fix=_fix(names_module(str(reward["python"])), are_messages, built),
        severity="error" if misread.raises else "warning",
        mark=context.source.mark(("rewards", index, "python")),
    )


def _fix(is_of_package: bool, are_messages: bool, built: bool) -> str:
    other = "prompt_format: " + ("standard" if are_messages else "conversational")
    if is_of_package:
        return f"{other if built else 'another reward'}, or your own function"
    if are_messages:
        return 'read the text of a completion: completion[0]["content"]'
    return 'read the completion itself, without [0] and ["content"]' + (f", or {other}" if built else "")
