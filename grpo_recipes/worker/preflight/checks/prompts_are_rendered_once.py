"""No prompt contains the tokens that the chat template or the tokenizer adds to it.

What: plain prompts that begin with the beginning-of-sequence token although the tokenizer adds it, and messages whose
content contains tokens with which the chat template marks turns; or, in half of the prompts, marks of another model's
template, such as [INST].
Why: such data was rendered before, often with a different template. The model gets two beginning tokens, or a turn
within a turn, which it has not seen in its training; nothing raises.
Fix: the messages before they were rendered; or plain prompts, with the beginning token removed.
Example: 100 of 100 prompts begin with two '<s>'
"""

from collections.abc import Iterator, Sequence
from typing import Any

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.worker.preflight._shared.seen import Rows, Seen, content_of, is_conversational
from grpo_recipes.worker.preflight._shared.tokens import render_prompt, special_tokens

ID = "PFL052"
# Turns without content of their own: all special tokens of their text are the template's.
TURN = [{"role": "user", "content": "a"}]
OF_OTHERS = ("[INST]", "<|im_start|>", "<|start_header_id|>", "<start_of_turn>", "<|user|>", "<\uff5cUser\uff5c>")


def check(inputs: Seen) -> Iterator[Finding]:
    if inputs.tokenizer is None or inputs.template_problem:
        return
    marks = list[str]()
    for rows in (inputs.data, *inputs.held_out):
        if rows is None:
            continue
        if not marks and not rows.has_images and any(map(is_conversational, rows.prompts[:1])):
            text = render_prompt(inputs, TURN)
            marks = [token for token in special_tokens(inputs.tokenizer).values() if token in text]
        yield from _of_texts(inputs.tokenizer, rows)
        yield from _of_messages(rows, marks) or _of_others(rows)


def _of_texts(tokenizer: Any, rows: Rows) -> Iterator[Finding]:
    begin = tokenizer.bos_token
    written = [
        index for index, prompt in enumerate(rows.prompts) if begin and isinstance(prompt, str) and begin in prompt[:80]
    ]
    twice = [index for index in written if _begins_twice(tokenizer, rows.prompts[index])]
    if twice:
        yield warning(
            f"{rows.where}: {len(twice)} of {len(rows.prompts)} prompts begin with two {begin!r}",
            (rows.where, "prompt"),
            because=f"rows {join_items([*map(rows.number, twice)], 5)} contain one, and the tokenizer adds another",
            fix=f"prompts without {begin!r}, or the messages before they were rendered",
        )


def _begins_twice(tokenizer: Any, prompt: str) -> bool:
    ids = list(tokenizer(prompt[:200])["input_ids"])
    return ids[:2] == [tokenizer.bos_token_id] * 2


def _of_messages(rows: Rows, marks: list[str]) -> list[Finding]:
    marked = _find_marked(rows, marks)
    fix = "messages as they were before a template rendered them, or dataset.prompt_format: standard"
    return [_fault(rows, marked, "the chat template marks turns with it", fix)] if marked else []


def _of_others(rows: Rows) -> list[Finding]:
    """Single prompts may be about such marks."""
    marked = _find_marked(rows, OF_OTHERS)
    fix = "messages as they were before a template rendered them"
    is_most = 2 * len(marked) >= len(rows.prompts) > 0
    return [_fault(rows, marked, "templates of other models mark turns with it", fix)] if is_most else []


def _find_marked(rows: Rows, marks: Sequence[str]) -> dict[int, str]:
    """Returns the prompts by index whose messages contain a mark, with the mark."""
    return {
        index: mark
        for index, prompt in enumerate(rows.prompts)
        if is_conversational(prompt)
        for message in prompt
        for mark in marks
        if mark in content_of(message)
    }


def _fault(rows: Rows, marked: dict[int, str], marks: str, fix: str) -> Finding:
    return warning(
        f"{rows.where}: messages of {len(marked)} of {len(rows.prompts)} prompts contain {marked[min(marked)]!r}",
        (rows.where, "prompt"),
        because=(
            f"of rows {join_items([rows.number(index) for index in marked], 5)}",
            f"{marks}, so these prompts were probably rendered before",
        ),
        fix=fix,
    )
