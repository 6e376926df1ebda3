"""The tool of the calculator recipe."""

import ast
import operator
from collections.abc import Callable

LONGEST = 100
OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


def calculate(expression: str) -> str:
    """Calculates with whole numbers, +, - and *.

    Args:
        expression: What to calculate, such as 47*38.

    Returns:
        The result in digits.
    """
    if len(expression) > LONGEST:
        raise ValueError(f"longer than {LONGEST} characters")
    return str(_value(ast.parse(expression.strip(), mode="eval").body))


def _value(part: ast.expr) -> int:
    if isinstance(part, ast.Constant) and type(part.value) is int:
        return part.value
    if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub):
        return -_value(part.operand)
    if isinstance(part, ast.BinOp) and type(part.op) in OPERATIONS:
        return OPERATIONS[type(part.op)](_value(part.left), _value(part.right))
    raise ValueError("only whole numbers, +, - and * can be calculated")
