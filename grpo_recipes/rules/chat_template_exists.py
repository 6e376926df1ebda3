"""A chat template that the recipe names is a readable file.

The training process reads it when it builds the tokenizer, after all its imports, and would fail with
FileNotFoundError. The file name must end in .jinja, .jinja2 or .j2, and so must the target of a link: the text becomes
part of the trained model, so a recipe that names a private file as its template would publish it.
"""

import os
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.user_files.local_files import path_slip

ID = "TOK001"
KEY = "tokenizer.chat_template_path"
SUFFIXES = (".jinja", ".jinja2", ".j2")


def check(context: Context) -> Iterator[Finding]:
    value = context.value(KEY)
    if not isinstance(value, str):
        return
    file = os.path.normpath(os.path.join(context.source.directory(context.path(KEY)), value))
    if os.path.isfile(file) and os.access(file, os.R_OK):
        wrong = next((one for one in (file, os.path.realpath(file)) if not one.endswith(SUFFIXES)), None)
        if wrong is not None:
            name, ends = os.path.basename(wrong), ", ".join(SUFFIXES)
            said = f"chat template {value} has an unexpected file name"
            because = f"{name} does not end in {ends}, and its text becomes part of the model"
            fix = f"call the file {os.path.splitext(os.path.basename(value))[0]}.jinja"
            yield context.finding(said, KEY, because, fix=fix)
        return
    said = f"there is no chat template {value}"
    reasons = [f"looked for {file}", *_meant(value)]
    yield context.wrong(said, KEY, reasons, fix="remove chat_template_path to keep the model's own template")


def _meant(value: str) -> list[str]:
    """A hint: grpo-run has no named templates; or the path may have a typing error."""
    if slip := path_slip(value):
        return [slip]
    is_word = "/" not in value and "." not in value
    return ["grpo-run has no named templates; give a file with the template's text"] if is_word else []
