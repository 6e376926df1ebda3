r"""Right answers have the form that the prompt asks for, in training and in held-out rows.

What: held-out answers of a different form than those that are trained (126.00 for 126, 1,240 for 1240, (B) for B), for
rewards that compare texts; and answers that are indices while every prompt has options with letters, or the reverse.
Only a form that nine tenths of the rows share counts. Also texts with several words and numbers, where every prompt
asks for a number; and objects in Python's form where prompts or rewards read JSON, or exact_match a text.
Why: the model is scored on texts that it was never asked for, so every held-out answer, or every answer, counts as
wrong.
Fix: a template under dataset.columns, or evaluation.columns, that writes both in one form.
Example: evaluation: right answers are decimals, such as '126.00', and those of dataset are whole numbers
"""

import ast
import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.worker.preflight._shared.reward_seen import (
    BOXED,
    GOLD,
    GOLD_SHORT,
    cut,
)
from grpo_recipes.worker.preflight._shared.seen import Rows, Seen, prompt_as_text, template_of

ID = "PFL056"
FEWEST, SHARE = 4, 0.9
FORMS = {
    "whole numbers": r"-?\d+",
    "decimals": r"-?\d+\.\d+",
    "numbers with separators": r"-?\d{1,3}([,' ]\d{3})+(\.\d+)?",
    "numbers with a unit": r"[$€£]\s?-?\d[\d,.]*|-?\d[\d,.]*\s?(%|[$€£]|[A-Za-z]{1,4})",
    "letters": r"[A-Z]",
    "small letters": r"[a-z]",
    "letters in brackets": r"\([A-Za-z]\)|[A-Za-z][.):]",
}
OF_JSON = ("json_fields", "valid_json", "function_calls")
COMPARED_AS_NUMBERS = (*BOXED, "reasoning_gym", "countdown")
ASKS_FOR_NUMBER = re.compile(
    r"(?i)\b(?:final|whole|bare|single|an?) (?:number|integer)\b|\bnumber only\b|\bonly (?:the|a) number\b|<number>"
)
NUMBER, WORD = re.compile(r"\d+(?:[.,]\d+)*"), re.compile(r"[^\W\d_]{2,}")
NAMES_OBJECT = re.compile(r"(?i)\b(?:lists?|arrays?|python|dict\w*|tuples?|brackets?)\b|[\[{]")
OPTION = r"(?m)(?:^|\s)\(?{}[.):]\s*\S"


def check(inputs: Seen) -> Iterator[Finding]:
    column = inputs.reference
    readers = [inputs.plan.rewards[reward.index] for reward in inputs.rewards if column in reward.parameters]
    if inputs.data is None or column is None or not readers:
        return
    yield from _prose(inputs, column)
    yield from _python_text(inputs, column, {reward.target for reward in readers})
    if all(reward.target in COMPARED_AS_NUMBERS for reward in readers):
        return
    answers = _answers(inputs.data, column)
    trained = _form(answers)
    for rows in inputs.held_out if trained else ():
        tested = _form(others := _answers(rows, column))
        if tested not in (None, trained):
            yield warning(
                f"{rows.where}: right answers are {tested}, such as {cut(others[0], 40)!r}, and those of dataset are "
                f"{trained}",
                (rows.where, "columns", column),
                because=(f"a right answer in dataset is {cut(answers[0], 40)!r}", "a reward compares the texts"),
                fix=f"a template that writes {column} in one form in both",
            )
    prompts = [prompt_as_text(prompt) for prompt in inputs.data.prompts]
    for form, own, shown in (("whole numbers", "[01]", "AB"), ("letters", "[AB]", "12")):
        has_options = [all(re.search(OPTION.format(mark), prompt) for mark in shown) for prompt in prompts]
        is_index = max(map(len, answers), default=0) == 1 and trained == form
        if is_index and sum(has_options) >= SHARE * len(prompts) and not _has(prompts, own):
            yield warning(
                f"the prompts have options {', '.join(shown)}, and right answers are {form}, such as {answers[0]!r}",
                ("dataset", "columns", column),
                because="a model that names its option is scored as wrong",
                fix=(shown == "AB" and template_of(inputs, column, "'ABCDEFGHIJ'[{} | int]"))
                or f"a template for {column} that names the option",
            )


def _prose(inputs: Seen, column: str) -> Iterator[Finding]:
    """Yields texts as right answers where every prompt asks for a number."""
    assert inputs.data is not None
    prompts = [prompt_as_text(prompt) for prompt in inputs.data.prompts]
    short = inputs.trial_texts.get(GOLD_SHORT, inputs.trial_texts.get(GOLD, []))
    are_texts = all(len(NUMBER.findall(text)) > 1 and len(WORD.findall(text)) > 1 for text in short)
    if short and are_texts and all(map(ASKS_FOR_NUMBER.search, prompts)):
        yield warning(
            f"the prompts ask for a number, and right answers are texts, such as {cut(short[0], 40)!r}",
            ("dataset", "columns", column),
            because="a reward compares with the whole text, or with one of its numbers",
            fix=f"a template for {column} that leaves the number",
        )


def _python_text(inputs: Seen, column: str, targets: set[str]) -> Iterator[Finding]:
    """Yields objects in the form of Python where JSON is read, or where no prompt names that form."""
    assert inputs.data is not None
    golds = inputs.trial_texts.get(GOLD, [])
    prompts = [prompt_as_text(prompt) for prompt in inputs.data.prompts]
    is_asked = not targets.isdisjoint(OF_JSON) or all("json" in prompt.lower() for prompt in prompts)
    if golds and is_asked and all(map(_is_python, golds)):
        template = template_of(inputs, column, "{} | tojson")
        yield warning(
            f"right answers have Python's form, not JSON's, such as {cut(golds[0], 36)}",
            ("dataset", "columns", column),
            because="a template writes an object with Python's quotes, unless | tojson follows it",
            fix=template or f"a template for {column} with | tojson",
        )
    objects = [_object(text) for text in golds]
    if (
        is_asked
        or "exact_match" not in targets
        or not (objects and all(objects))
        or any(map(NAMES_OBJECT.search, prompts))
    ):
        return
    are_single = all(isinstance(value, list) and len(value) == 1 for value in objects)
    yield warning(
        f"right answers are written as Python writes a {type(objects[0]).__name__}, such as {cut(golds[0], 36)}",
        ("dataset", "columns", column),
        because="exact_match compares with this text, and no prompt names its form",
        fix=(are_single and template_of(inputs, column, "{} | first"))
        or f"a template for {column} that writes the answer as text",
    )


def _object(text: str) -> object:
    """The list or dict that a text is in Python's form, None for any other text."""
    with contextlib.suppress(ValueError, SyntaxError, MemoryError, RecursionError):
        value = ast.literal_eval(text)
        return value if isinstance(value, dict | list) else None
    return None


def _is_python(text: str) -> bool:
    """Whether a text is an object as Python writes it, and not as JSON."""
    with contextlib.suppress(ValueError):
        json.loads(text)
        return False
    return _object(text) is not None


def _answers(rows: Rows, column: str) -> list[str]:
    known = rows.rows[column] if column in rows.rows.column_names else []
    return [str(value).strip() for value in known if value is not None and str(value).strip()]


def _form(answers: Sequence[str]) -> str | None:
    """Returns the form of nearly all answers, None if they have no common one."""
    if len(answers) < FEWEST:
        return None
    forms = Counter(
        next((form for form, shape in FORMS.items() if re.fullmatch(shape, answer)), "") for answer in answers
    )
    form, count = forms.most_common(1)[0]
    return form if form and count >= SHARE * len(answers) else None


def _has(prompts: Sequence[str], mark: str) -> bool:
    """Whether most prompts have an option with this mark."""
    return 2 * sum(re.search(OPTION.format(mark), prompt) is not None for prompt in prompts) > len(prompts)
