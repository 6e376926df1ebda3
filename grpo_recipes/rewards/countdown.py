"""1.0 for an expression of the given numbers that equals the target."""

import ast
import json
import operator
from collections.abc import Callable
from fractions import Fraction

from grpo_recipes.rewards.completion_text import Completion, answer_in_tags, completion_text

LONGEST = 200
OPERATIONS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def countdown(
    completions: list[Completion], *, nums: list[object], target: list[object], **kwargs: object
) -> list[float | None]:
    """Gives 1.0 to a completion whose last <answer> makes `target` from all of `nums`, each used once, else 0.0.

    The answer is an expression of + - * / (also × and ÷) and parentheses; anything after a = is ignored.
    nums: the numbers, as a list or its text; target: the number to make. It is computed with fractions, so nothing is
    rounded.
    """
    asked = zip(completions, nums, target, strict=True)
    return [float(_makes(completion_text(given), _numbers(has), Fraction(str(wanted)))) for given, has, wanted in asked]


def _numbers(given: object) -> list[Fraction]:
    values = json.loads(given) if isinstance(given, str) else given
    if not isinstance(values, list | tuple):
        raise ValueError(f"countdown: nums {given!r} is not a list of numbers")
    return sorted(Fraction(str(value)) for value in values)


def _makes(text: str, numbers: list[Fraction], target: Fraction) -> bool:
    answer = answer_in_tags(text) or ""
    expression = answer.partition("=")[0].replace("×", "*").replace("÷", "/").strip()
    if not expression or len(expression) > LONGEST:
        return False
    used: list[Fraction] = []
    try:
        made = _compute(ast.parse(expression, mode="eval").body, used)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return False
    return made == target and sorted(used) == numbers


def _compute(node: ast.expr, used: list[Fraction]) -> Fraction:
    """The value of an expression, whose numbers are added to `used`. Raises ValueError for anything else."""
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        left, right = _compute(node.left, used), _compute(node.right, used)
        return OPERATIONS[type(node.op)](left, right)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        used.append(Fraction(node.value))
        return used[-1]
    raise ValueError("not an expression of whole numbers")
