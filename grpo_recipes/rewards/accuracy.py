"""1.0 for the right mathematical answer, judged by math-verify."""

import logging
import re
import threading
from typing import Any

from grpo_recipes.rewards.completion_text import Completion, answer_in_tags, completion_text

# 9^9^9^9, or an exponent of five digits: sympy would compute it until its timeout, for each completion.
TOO_LARGE = re.compile(r"(?:\*\*|\^)[\s{(]*\d+[\s})]*(?:\*\*|\^)|(?:\*\*|\^)[\s{(]*\d{5,}")
# A letter next to an operator, a single letter, or a LaTeX command.
ONLY_FORMULA = re.compile(r"[A-Za-z)]\s*[-+*/^=(]|[-+*/^=(]\s*[A-Za-z]|^[A-Za-z]$|\\(?!boxed)[A-Za-z]")
WORD = re.compile(r"(?<!\\)\b[A-Za-z]{3,}")
PARSING_TIMEOUT_S = 5
COMPARING_TIMEOUT_S = 5


def accuracy(completions: list[Completion], *, solution: list[object], **kwargs: object) -> list[float | None]:
    r"""Gives 1.0 to a completion whose answer equals `solution` mathematically, else 0.0.

    The answer is the content of the last <answer>...</answer>, or else what math-verify finds: \boxed{},
    LaTeX, or the last number. solution: LaTeX or a plain number or expression; a row whose solution is not mathematics,
    or a sentence with a calculation in it, gets None, that is, no reward. If the solution is a number, a sum or product
    is not accepted: 17 + 12 repeats the question instead of answering 29. Numbers with powers of powers or five-digit
    exponents are not evaluated and count as wrong.
    """
    return [_judge(completion_text(given), wanted) for given, wanted in zip(completions, solution, strict=True)]


def _judge(text: str, solution: object) -> float | None:
    gold = _parse_expression("" if solution is None else str(solution).strip())
    if not gold or _is_a_calculation(gold, str(solution)):
        return None
    tagged = answer_in_tags(text)
    answer = text if tagged is None else tagged
    if tagged == str(solution).strip():
        return 1.0
    if TOO_LARGE.search(answer):
        return 0.0
    given = _parse(answer) if tagged is None else _parse_expression(answer)
    return float(not _is_to_be_computed(gold, given) and _is_equal(gold, given))


def _parse_expression(text: str) -> list[Any]:
    """A text that is only the answer, as math-verify's expressions.

    math-verify takes 1+x without $ for the number 1. So a formula is put between $, but not words or 5 km.
    """
    is_formula = ONLY_FORMULA.search(text) and not WORD.search(text) and "$" not in text
    return _parse(f"${text}$") if is_formula else _parse(text)


def _parse(text: str) -> list[Any]:
    from math_verify import parse
    from math_verify.errors import TimeoutException

    try:
        return list(parse(text, parsing_timeout=_timeout(PARSING_TIMEOUT_S)))
    except (Exception, TimeoutException):  # TimeoutException is a BaseException and would end the training
        return []


def _is_a_calculation(gold: list[Any], solution: str) -> bool:
    """Whether the solution is a sentence with an equation of numbers, such as 2 * 15 = 30, which no answer equals."""
    is_equation = getattr(gold[0], "rel_op", None) == "==" and not gold[0].free_symbols
    return is_equation and WORD.search(solution) is not None


def _is_to_be_computed(gold: list[Any], answer: list[Any]) -> bool:
    """Whether the solution is a number and the answer a sum or product of numbers, which math-verify would evaluate."""
    if not answer or not getattr(gold[0], "is_Number", False):
        return False
    terms = answer[0].args if getattr(answer[0], "is_Add", False) else answer[:1]
    numbers = [factors for term in terms if (factors := _numbers(term))]
    return len(numbers) > 1 or any(len(factors) > 1 for factors in numbers)


def _numbers(term: Any) -> list[Any]:
    """The factors of a term that are whole numbers or decimals, ignoring its sign; no fractions or powers."""
    factors = [factor for factor in term.args if factor != -1] if getattr(term, "is_Mul", False) else [term]
    return [factor for factor in factors if getattr(factor, "is_Integer", False) or getattr(factor, "is_Float", False)]


def _is_equal(gold: list[Any], answer: list[Any]) -> bool:
    from math_verify import verify
    from math_verify.errors import TimeoutException

    try:
        return bool(verify(gold, answer, timeout_seconds=_timeout(COMPARING_TIMEOUT_S)))
    except (Exception, TimeoutException):
        return False


def _timeout(seconds: int) -> int | None:
    """math-verify's timeouts are signals, which work only in the main thread; other threads run without."""
    if threading.current_thread() is threading.main_thread():
        return seconds
    for name in ("math_verify.parser", "math_verify.grader"):
        logging.getLogger(name).setLevel(logging.ERROR)
    return None
