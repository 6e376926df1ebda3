"""How the source of a function declares its parameters, and which functions make a reward instead of being one."""

import ast
from collections.abc import Sequence
from typing import NamedTuple

CALLED_WITH = ("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric")
"""The keywords that TRL passes to a reward beside the columns."""
_FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_Node = _FunctionNode | ast.Lambda


class Function(NamedTuple):
    """A function as its source declares it. required: parameters without a default, less *args and **kwargs."""

    line: int
    parameters: tuple[str, ...]
    required: tuple[str, ...]
    takes_any_keyword: bool
    positional_only: tuple[str, ...] = ()


def declared(node: _Node) -> Function:
    """The parameters of a function."""
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    keyword_required = [
        a.arg for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None
    ]
    return Function(
        line=node.lineno,
        parameters=tuple(a.arg for a in [*positional, *arguments.kwonlyargs]),
        required=(*_required(positional, len(arguments.defaults)), *keyword_required),
        takes_any_keyword=arguments.kwarg is not None,
        positional_only=tuple(a.arg for a in arguments.posonlyargs),
    )


def _required(arguments: Sequence[ast.arg], defaults: int) -> list[str]:
    return [a.arg for a in arguments[: len(arguments) - defaults]]


def makes_a_reward(node: ast.AST) -> bool:
    """Whether TRL cannot call it itself, so that it is called once, with the options, and gives the reward.

    A class does; so does a function that takes neither prompts nor completions nor any keyword.
    """
    if isinstance(node, ast.ClassDef):
        return True
    assert isinstance(node, _Node)
    function = declared(node)
    return not function.takes_any_keyword and set(function.parameters).isdisjoint(CALLED_WITH[:3])
