"""A model that receives messages has a chat template.

The tokenizer of many base models has no chat template: the run ends with ValueError ("tokenizer.chat_template is not
set") when it generates the first batch, after loading the model. A base model takes plain prompts (prompt_format:
standard), or a template that the recipe provides. The rule reads the model's folder, or the local hub cache.
"""

import os
from collections.abc import Iterator

from grpo_recipes.contract.files.regular_file import read_text
from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.training_rows import is_conversational
from grpo_recipes.user_files.local_files import local_path
from grpo_recipes.user_files.template import chat_template_of

ID = "TOK002"
MODEL, TEMPLATE = "model.model_name_or_path", "tokenizer.chat_template_path"
_LARGEST_BYTES = 16 * 1024 * 1024


def check(context: Context) -> Iterator[Finding]:
    if context.value(TEMPLATE) is not None or is_conversational(context) is not True:
        return
    if own_template(context) != "":
        return
    built = context.value("dataset.prompt") is not None
    yield context.finding(
        f"the tokenizer of {context.text(MODEL)} has no chat template",
        MODEL,
        "the prompts are messages" + (", as prompt_format says" if built else " in the first row"),
        fix="prompt_format: standard for plain prompts, or chat_template_path: a template for messages"
        if built
        else "chat_template_path: a template for messages",
        patch=[Patch(("dataset", "prompt_format"), "standard")] if built else [],
    )


def own_template(context: Context) -> str | None:
    """The chat template that comes with the model: "" if it has none, None if unknown."""
    model, revision = context.text(MODEL), context.value("model_init_kwargs.revision")
    path = local_path(model, context.source.directory(("model", "model_name_or_path")))
    return chat_template_of(path or model, None if revision is None else str(revision))


def template_text(context: Context) -> str | None:
    """The text of the chat template that the run uses: "" if there is none, None if unknown."""
    named = context.value(TEMPLATE)
    if not isinstance(named, str):
        return own_template(context)
    directory = context.source.directory(("tokenizer", "chat_template_path"))
    try:
        return read_text(os.path.normpath(os.path.join(directory, named)), _LARGEST_BYTES)
    except (OSError, ValueError):
        return None
