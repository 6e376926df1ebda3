"""Tools are told in conversations.

Tools are a part of what the chat template renders, and their answers are messages. With prompts of plain text TRL
tells the model nothing of them, and ends with AttributeError ("'str' object has no attribute 'get'") when it looks for
calls in the first completions, after the model was loaded.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.training_rows import is_conversational

ID = "TOL005"


def check(context: Context) -> Iterator[Finding]:
    if not context.value("tools") or is_conversational(context) is not False:
        return
    built = context.value("dataset.prompt") is not None
    yield context.finding(
        ID,
        "the prompts are plain text, and tools are for messages",
        "dataset.prompt_format" if built else "dataset.path",
        because=["TRL looks for tool calls in messages: AttributeError after the first generation"],
        fix="prompt_format: conversational" if built else "rows whose prompt is messages: [{role: user, content: ...}]",
        patch=[Patch(("dataset", "prompt_format"), "conversational")] if built else [],
    )
