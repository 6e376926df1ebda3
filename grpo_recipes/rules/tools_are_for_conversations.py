"""Tools need conversational prompts.

The chat template renders the tools, and their answers are messages. With plain prompts TRL does not show the model any
tools, and raises AttributeError ("'str' object has no attribute 'get'") when it looks for calls in the first
completions, after loading the model. The text of an environment's reset is added to a message.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.said_tools import turns_of
from grpo_recipes.rules._shared.training_rows import is_conversational

ID = "TOL005"
MANY = {"tools": "tools", "environment": "the tools of an environment"}


def check(context: Context) -> Iterator[Finding]:
    turns = turns_of(context)
    if turns is None or is_conversational(context) is not False:
        return
    built = context.value("dataset.prompt") is not None
    yield context.finding(
        f"the prompts are plain text, but {MANY[turns]} need messages",
        "dataset.prompt_format" if built else "dataset.path",
        "TRL looks for tool calls in messages, and raises AttributeError after the first generation",
        fix="prompt_format: conversational" if built else "write prompts as messages: [{role: user, content: ...}]",
        patch=[Patch(("dataset", "prompt_format"), "conversational")] if built else [],
    )
