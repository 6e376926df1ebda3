"""Messages in the data reach the chat template as messages, with roles that it supports.

If a list of messages is written as text, in the data or by `dataset.prompt: "{{ messages }}"`, TRL reads a single
string: the prompt contains brackets, quotes and role names, and the model learns from that. Few chat templates support
ShareGPT's roles human and gpt. The others raise, drop the message, or write a role that the model was not trained on.
The rule reads the first 64 rows of a local .jsonl file; preflight reads all.
"""

from collections.abc import Iterator, Sequence

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.prompt_shape import doubtful_prompt, last_question_of, wrong_prompt
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.training_rows import sections_of_rows
from grpo_recipes.rules.conversations_have_a_chat_template import template_text
from grpo_recipes.user_files.local_files import local_path
from grpo_recipes.user_files.local_rows import first_rows

ID = "DAT006"


def check(context: Context) -> Iterator[Finding]:
    for section, of_rows in sections_of_rows(context):
        if of_rows.value(f"{section}.path") is not None:
            yield from _section(of_rows, section)


def _section(context: Context, section: str) -> Iterator[Finding]:
    written = context.value("dataset.prompt")
    text = str(written).strip()
    alone = text[2:-2].strip() if written is not None and text.startswith("{{") else None
    if written is not None and (alone is None or not alone.isidentifier()):
        return
    key, column = f"{section}.path", alone or "prompt"
    path = local_path(context.text(key), context.source.directory(context.path(key)))
    for line, row in first_rows(path or ""):
        prompt = None if isinstance(row, str) else row.get(column)
        written_out = prompt if alone is not None and isinstance(prompt, list) else []
        reason = doubtful_prompt(prompt, None)
        if written_out and isinstance(written_out[0], dict):
            yield _finding(context, key, line, f"{written} writes the list of messages as text", column, written_out)
        elif reason and doubtful_prompt(prompt, template_text(context)):
            yield _finding(context, key, line, reason, column)
        else:
            continue
        return


def _finding(
    context: Context, key: str, line: int, reason: str, column: str, messages: Sequence[object] = ()
) -> Finding:
    """The finding for a prompt. messages: the list that a template writes as text, () for other prompts."""
    fix = "write lists of messages in the data, without quotes around them, with the roles user and assistant"
    if messages:
        asked = last_question_of(column, messages)
        is_prompt = column == "prompt" and wrong_prompt(messages) is None and asked is not None and "[-1]" in asked
        fix = f'prompt: "{asked}"' if asked else "a template that takes the text of the user's message"
        fix = "remove dataset.prompt, so that TRL reads the messages" if is_prompt else fix
    return context.finding(
        f"{context.text(key)}: chat templates cannot read the prompt in line {line}",
        "dataset.prompt" if messages else key,
        [reason, "TRL uses it unchanged, so the model gets a different prompt than intended"],
        severity="warning",
        fix=fix,
    )
