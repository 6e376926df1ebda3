"""A chat template that the recipe names is a readable file, and begins the answer.

The training process reads it when it builds the tokenizer, after all its imports, and would fail with
FileNotFoundError. The file name must end in .jinja, .jinja2 or .j2, and so must the target of a link: the text becomes
part of the trained model, so a recipe that names a private file as its template would publish it.

A template that jinja2 cannot parse raises TemplateSyntaxError at the first batch. TRL asks for the beginning of an
answer with `add_generation_prompt`. A template that does not read it ends with the user's message, so the model first
has to write the marks of an answer; templates with [/INST] need none. Plain prompts use no template.
"""

import os
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Severity
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.training_rows import is_conversational
from grpo_recipes.rules.chat_template_kwargs_are_the_templates import LARGEST_TEMPLATE
from grpo_recipes.rules.conversations_have_a_chat_template import template_text
from grpo_recipes.user_files.local_files import path_slip
from grpo_recipes.user_files.template import TemplateProblem, template_variables

ID = "TOK001"
KEY = "tokenizer.chat_template_path"
SUFFIXES = (".jinja", ".jinja2", ".j2")
WARNS: Severity = "warning"


def check(context: Context) -> Iterator[Finding]:
    value = context.value(KEY)
    if not isinstance(value, str):
        return
    file = os.path.normpath(os.path.join(context.source.directory(context.path(KEY)), value))
    if os.path.isfile(file) and os.access(file, os.R_OK):
        wrong = next((path for path in (file, os.path.realpath(file)) if not path.endswith(SUFFIXES)), None)
        if wrong is not None:
            name, ends = os.path.basename(wrong), ", ".join(SUFFIXES)
            message = f"chat template {value} has an unexpected file name"
            because = f"{name} does not end in {ends}, and its text becomes part of the model"
            fix = f"call the file {os.path.splitext(os.path.basename(value))[0]}.jinja"
            yield context.finding(message, KEY, because, fix=fix)
        else:
            yield from _text(context, value)
        return
    message = f"there is no chat template {value}"
    reasons = [f"looked for {file}", *_hints(value)]
    yield context.wrong(message, KEY, reasons, fix="remove chat_template_path to keep the model's own template")


def _text(context: Context, value: str) -> Iterator[Finding]:
    """The findings for what the template says, and for one that nothing uses."""
    text = template_text(context)
    if context.is_given(KEY) and is_conversational(context) is False:
        because = "the prompts are plain text, and TRL applies no chat template to them"
        fix = "remove chat_template_path, or prompt_format: conversational"
        yield context.wrong("chat_template_path has no effect on plain prompts", KEY, because, fix=fix, severity=WARNS)
    if text is None or len(text) > LARGEST_TEMPLATE:
        return
    name = os.path.basename(str(value))  # the path may change, with the run folder
    try:
        known = template_variables(text, is_chat=True)
    except TemplateProblem as problem:
        because = "jinja2 raises TemplateSyntaxError at the first batch, after loading the model"
        yield context.finding(f"the chat template {name} cannot be read: {problem}", KEY, because)
        return
    if "messages" not in known:
        message, because = f"the chat template {name} does not read messages", "every prompt would be the same text"
        yield context.finding(message, KEY, because, fix="{% for message in messages %} ... {% endfor %} in the file")
    elif "add_generation_prompt" not in known and "[/INST]" not in text:
        message = f"the chat template {name} does not read add_generation_prompt"
        because = "TRL asks for the beginning of an answer; without it the model has to write its marks"
        fix = "{% if add_generation_prompt %}<the beginning of an answer>{% endif %} at the end of the file"
        yield context.finding(message, KEY, because, fix=fix, severity=WARNS)


def _hints(value: str) -> list[str]:
    """A hint: grpo-run has no named templates; or the path may have a typing error."""
    if slip := path_slip(value):
        return [slip]
    is_word = "/" not in value and "." not in value
    return ["grpo-run has no named templates; give a file with the template's text"] if is_word else []
