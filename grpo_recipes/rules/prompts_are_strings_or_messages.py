"""Each prompt in the data is a string, or a list of messages with role and content.

Without `dataset.prompt` TRL uses the rows' own prompts unchanged. It expects messages with `role`. ShareGPT rows
(`from`, `value`), null, numbers and lists of strings reach the tokenizer as if they were text, and the first generation
with such a row raises, after loading the model. An empty list raises IndexError, a message without `content` KeyError.
The rule reads the first 64 rows of a local .jsonl file; preflight reads all, and a run stops at such a row before it
loads the model. For messages with images see DAT005.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.contract.prompt_shape import has_picture, template_of, wrong_prompt
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.training_rows import sections_of_rows
from grpo_recipes.user_files.local_files import local_path
from grpo_recipes.user_files.local_rows import first_rows

ID = "DAT004"


def check(context: Context) -> Iterator[Finding]:
    for section, of_rows in sections_of_rows(context):
        if of_rows.value("dataset.prompt") is None and of_rows.value(f"{section}.path") is not None:
            yield from _section(of_rows, section)


def _section(context: Context, section: str) -> Iterator[Finding]:
    key = f"{section}.path"
    path = local_path(context.text(key), context.source.directory(context.path(key)))
    rows = [
        (line, row["prompt"]) for line, row in first_rows(path or "") if not isinstance(row, str) and "prompt" in row
    ]
    without = [
        (line, prompt) for line, prompt in rows if not (isinstance(prompt, list) and any(map(has_picture, prompt)))
    ]
    wrong = [(line, prompt, reason) for line, prompt in without if (reason := wrong_prompt(prompt))]
    if not wrong:
        return
    line, prompt, reason = wrong[0]
    written = template_of("prompt", prompt) if len(wrong) == len(rows) else None
    others = f" and in {len(wrong) - 1} more of the first {len(rows)} rows" if len(wrong) > 1 else ""
    message = f"{context.text(key)}: the prompt in line {line}{others} cannot be used"
    because = [reason, "the first generation with this row raises, after loading the model"]
    fix = f'prompt: "{written}"' if written else "remove these rows from the data, or correct their prompts"
    prompt_path = context.path("dataset.prompt")
    yield context.finding(message, key, because, fix=fix, patch=[Patch(prompt_path, written)] if written else [])
