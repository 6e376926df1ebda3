"""Spells right answers in the other way that prompts or other right answers spell them."""

import re
from collections import Counter
from collections.abc import Collection, Sequence

MINUS = "\N{MINUS SIGN}"
SEPARATED = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d+)?")
COMMA = re.compile(r"(-?\d+),(\d{1,2}|\d{4,})")
WHOLE = re.compile(r"(-?\d+)\.0")
MOST_CHARACTERS, MOST_LABELS = 40, 10


def respelled(answers: Sequence[str], prompts: Sequence[str]) -> list[str]:
    """Returns each answer in the other spelling, or unchanged if there is no sign that another one is in use.

    Signs: a hyphen before a number where the answer has a minus sign; numbers without separators; a decimal point;
    no prompt with a number in .0 or a word about decimals; the same word with other capitals or punctuation, in other
    answers or, for each of a few labels, in every prompt.
    """
    words = "\n".join(prompts)
    texts = "\n".join([*prompts, *answers])
    has_hyphen = re.search(r"(?<![\w.-])-\d", texts) is not None
    has_plain = re.search(r"\b\d{4,}\b", texts) is not None and re.search(r"\b\d{1,3},\d{3}\b", words) is None
    has_point = re.search(r"\d\.\d", texts) is not None and re.search(r"\d,\d{1,2}\b(?!\d)", words) is None
    is_whole = re.search(r"(?i)\d\.0\b|decimal|float|round|places?\b|precision", words) is None
    labels = Counter(answers)
    by_word: dict[str, list[str]] = {}
    for label, _ in labels.most_common():
        by_word.setdefault(_word(label), []).append(label)
    asked = _labels_in_prompts(labels, prompts)
    other = []
    for answer in answers:
        text = answer.replace(MINUS, "-") if has_hyphen else answer
        if has_plain and SEPARATED.fullmatch(text):
            text = text.replace(",", "")
        if has_point and (decimal := COMMA.fullmatch(text)):
            text = f"{decimal[1]}.{decimal[2]}"
        if is_whole and (whole := WHOLE.fullmatch(text)):
            text = whole[1]
        same = by_word[_word(answer)]
        if text == answer and len(same) > 1 and len(answer) <= MOST_CHARACTERS and answer != same[0]:
            text = same[0]
        other.append(asked.get(text, text))
    return other


def _labels_in_prompts(labels: Collection[str], prompts: Sequence[str]) -> dict[str, str]:
    """Returns each label as every prompt writes it, in other capitals; {} if one of them is in no other form there."""
    if not 2 <= len(labels) <= MOST_LABELS or any(re.fullmatch(r"[^\W\d_]{2,}", label) is None for label in labels):
        return {}
    forms: dict[str, str] = {}
    for label in labels:
        word = re.compile(rf"(?i)(?<!\w){label}(?!\w)")
        in_prompts = [word.findall(prompt) for prompt in prompts]
        if not all(in_prompts) or any(label in words for words in in_prompts):
            return {}
        forms[label] = in_prompts[0][-1]
    return forms


def _word(text: str) -> str:
    """Returns what two spellings of a label have in common; a text with digits is its own."""
    return text if re.search(r"\d", text) else re.sub(r"[\W_]+", " ", text.casefold()).strip() or text
