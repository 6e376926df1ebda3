"""A chat template that the recipe names is a file that can be read.

The training process reads it when it builds the tokenizer, after all its imports, and would end with FileNotFoundError.
"""

import os
from collections.abc import Iterator

from grpo_recipes.finding import Finding, Patch
from grpo_recipes.rules.context import Context

ID = "TOK001"
KEY = "tokenizer.chat_template_path"


def check(context: Context) -> Iterator[Finding]:
    value = context.value(KEY)
    if not isinstance(value, str):
        return
    path: tuple[str | int, ...] = ("tokenizer", "chat_template_path")
    file = os.path.normpath(os.path.join(context.source.directory(path), value))
    if os.path.isfile(file) and os.access(file, os.R_OK):
        return
    yield context.finding(
        ID,
        f"there is no chat template {value}",
        KEY,
        because=[f"looked for {file}"],
        fix="remove chat_template_path to keep the model's own template",
        patch=[Patch(path, remove=True)],
    )
