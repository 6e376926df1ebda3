"""No prompt is empty, and each is a string or a list of messages that TRL can read.

What: prompts that are null, an empty list, or blank; in a conversation also a last message without text. Also messages
with `from` and `value` (ShareGPT) or without `content`, and other values that are neither text nor messages. Preflight
warns about a list of messages that is written as text, and about messages with the role human or gpt.
Why: TRL looks at the first message of the first prompt of a batch, so an empty list raises IndexError at some step, and
null or messages without `role` raise in the tokenizer, after loading the model. A blank prompt trains: the model learns
to answer nothing in particular. It may be blank if an environment's reset supplies the prompt.
Fix: leave such rows out of the data, or correct the template; for ShareGPT "{{ prompt[0].value }}" takes the question.
Example: dataset: 3 of 100 prompts are blank
Source: trl's data_utils.py (is_conversational).
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, mistake, warning
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.contract.prompt_shape import doubtful_prompt, template_of, wrong_prompt
from grpo_recipes.worker.preflight._shared.seen import Rows, Seen, content_of

ID = "PFL003"


def check(inputs: Seen) -> Iterator[Finding]:
    for rows in (inputs.data, *inputs.held_out):
        if rows is not None:
            if not rows.has_images:  # otherwise checked before the images were added
                yield from _unfit(rows)
            yield from _doubtful(rows, getattr(inputs.tokenizer, "chat_template", None))
            yield from _of(rows, may_be_blank=inputs.tools is not None and bool(inputs.tools.prompts))


def _unfit(rows: Rows) -> Iterator[Finding]:
    wrong = {index: reason for index, prompt in enumerate(rows.prompts) if prompt and (reason := wrong_prompt(prompt))}
    if not wrong:
        return
    index = min(wrong)
    written = template_of("prompt", rows.prompts[index])
    yield mistake(
        f"{rows.where}: {len(wrong)} of {len(rows.prompts)} prompts cannot be used",
        (rows.where, "prompt"),
        because=f"row {rows.number(index)}: {wrong[index]}",
        fix=f'prompt: "{written}"'
        if written
        else "make them with dataset.prompt, or write such messages into the data",
    )


def _doubtful(rows: Rows, template: object) -> Iterator[Finding]:
    text = template if isinstance(template, str) else None
    reasons = ((index, doubtful_prompt(prompt, text)) for index, prompt in enumerate(rows.prompts))
    doubts = [(index, reason) for index, reason in reasons if reason]
    if doubts:
        index, reason = doubts[0]
        yield warning(
            f"{rows.where}: {len(doubts)} of {len(rows.prompts)} prompts do not suit a chat template",
            (rows.where, "prompt"),
            because=f"row {rows.number(index)}: {reason}",
            fix="lists of messages in the data, without quotes around them and with the roles user and assistant",
        )


def _of(rows: Rows, *, may_be_blank: bool) -> Iterator[Finding]:
    absent = [index for index, prompt in enumerate(rows.prompts) if prompt is None or prompt == []]
    usable = [
        (index, prompt)
        for index, prompt in enumerate(rows.prompts)
        if prompt and (rows.has_images or not wrong_prompt(prompt))
    ]
    blank = [index for index, prompt in usable if _is_blank(prompt)]
    blank += [index for index, prompt in enumerate(rows.prompts) if prompt == ""]
    for indices, report, word in ((absent, mistake, "missing"), ([] if may_be_blank else blank, warning, "blank")):
        if indices:
            yield report(
                f"{rows.where}: {len(indices)} of {len(rows.prompts)} prompts are {word}",
                (rows.where, "prompt"),
                because=f"of rows {join_items([rows.number(index) for index in sorted(indices)], 5)}",
                fix="leave these rows out of the data, or give them a prompt",
            )


def _is_blank(prompt: object) -> bool:
    if isinstance(prompt, list):
        return not content_of(prompt[-1]).strip() and not (
            isinstance(prompt[-1], dict) and prompt[-1].get("tool_calls")
        )
    return not str(prompt).strip()
