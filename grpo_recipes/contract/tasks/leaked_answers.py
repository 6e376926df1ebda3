"""Finds prompts that contain their own right answer, without reporting tasks whose answer belongs in the prompt."""

import re
from collections.abc import Sequence

FEWEST_ROWS, SHARE = 4, 0.9
LONG = 40
"""Characters of an answer that a prompt holds only by mistake, unless it is one of several options."""
_OPTION = r"(?:^|[\s(\[])(?:[A-Za-z]|\d{1,2})[.):\]]\s*$|[-*•\"'\[,]\s*$"


def rows_with_their_answer(prompts: Sequence[str], answers: Sequence[str]) -> list[int]:
    """Returns the indices of the prompts that begin or end with their answer, or hold a long one; [] unless most do.

    The rest of these prompts has to differ: if it is the same in each row, the task is to repeat, find or change a
    text. Options of a choice and answers that are the same in every row do not count; prompts that are only their
    answer do.
    """
    texts = [" ".join(answer.split()).rstrip(".") for answer in answers]
    known = [index for index, answer in enumerate(texts) if answer]
    if len(known) < FEWEST_ROWS or len({texts[index] for index in known}) < 2:
        return []
    alone = [index for index in known if " ".join(prompts[index].split()).rstrip(".") == texts[index]]
    if len(alone) >= SHARE * len(known):
        return alone
    rests = {index: rest for index in known if (rest := _rest(prompts[index], texts[index])) is not None}
    is_most = len(rests) >= SHARE * len(known)
    return [*rests] if is_most and 2 * len({*rests.values()}) > len(rests) else []


def _rest(prompt: str, answer: str) -> str | None:
    """Returns the prompt without the answer that it should not have, None if it has none."""
    text = " ".join(prompt.split()).rstrip(".")
    if text.startswith(answer) and not text[len(answer) : len(answer) + 1].isalnum():
        return text[len(answer) :] or None
    before, middle, after = text.rpartition(answer)
    if not middle or before[-1:].isalnum() or (after and len(answer) < LONG) or re.search(_OPTION, before):
        return None
    return f"{before}{after}" if before.strip() else None


def rows_in_the_examples(prompts: Sequence[str], answers: Sequence[str]) -> list[int]:
    """Returns the indices of the prompts whose own part and answer are also in the part that all prompts share."""
    shared = _beginning(prompts)
    if len(prompts) < FEWEST_ROWS or len(shared) < LONG:
        return []
    ends = _beginning([prompt[len(shared) :][::-1] for prompt in prompts])[::-1]
    rows = []
    for index, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        begin = max(shared.rfind(mark) for mark in "\n:") + 1  # rows may share their first letters
        own = prompt[begin : len(prompt) - len(ends)].strip()
        _, is_there, after = shared[:begin].partition(own)
        if len(own) > 2 and answer.strip() and is_there and answer.strip() in after:
            rows.append(index)
    return rows


def _beginning(texts: Sequence[str]) -> str:
    """Returns the beginning that all texts share."""
    first, last = min(texts), max(texts)
    return first[: next((at for at, pair in enumerate(zip(first, last, strict=False)) if len({*pair}) > 1), len(first))]
