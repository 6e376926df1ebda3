"""Tools are told in conversations.

Tools are a part of what the chat template renders, and their answers are messages. With prompts of plain text TRL tells
the model nothing of them, and ends with AttributeError ("'str' object has no attribute 'get'") when it looks for calls
in the first completions, after the model was loaded; what an environment says at its reset is added to a message.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.training_rows import is_conversational
from grpo_recipes.rules._tools.said_tools import turns_of

ID = "TOL005"
MANY = {"tools": "tools", "environment": "the tools of an environment"}


def check(context: Context) -> Iterator[Finding]:
    turns = turns_of(context)
    if turns is None or is_conversational(context) is not False:
        return
    built = context.value("dataset.prompt") is not None
    yield context.finding(
        ID,
        f"the prompts are plain text, and {MANY[turns]} are for messages",
        "dataset.prompt_format" if built else "dataset.path",
        because=["TRL looks for tool calls in messages: AttributeError after the first generation"],
        fix="prompt_format: conversational" if built else "rows whose prompt is messages: [{role: user, content: ...}]",
        patch=[Patch(("dataset", "prompt_format"), "conversational")] if built else [],
    )
