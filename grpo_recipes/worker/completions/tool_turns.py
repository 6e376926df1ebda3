"""Answers held-out rows with the training's tools, through TRL's own tool-calling loop.

The policy generates as in an evaluation. Before trl 1.0, whose loops rebuild the tokens of all turns from the messages,
rows are answered in a single turn.
"""

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from grpo_recipes.contract.seams import OF_ROWS, OF_TOOLS, TOOL_LOOP, TOOL_TURN
from grpo_recipes.worker._shared.library import parse_response
from grpo_recipes.worker._shared.replacing import replace_temporarily
from grpo_recipes.worker.completions.held_out_environments import has_environments, has_several, methods_of
from grpo_recipes.worker.ends.ends import tokenizer_of

# Source: trl 1.0.0 to 1.16.0 grpo_trainer.py (_tool_call_loop).
TAKES_TOKENS = "multimodal_fields"


class RowTokens(list[int]):
    """The tokens of a row, which TRL extends by those of its turns. row: the index that seeds its random numbers."""

    def __init__(self, row: int, tokens: list[int]) -> None:
        super().__init__(tokens)
        self.row = row

    def __add__(self, more: list[int]) -> "RowTokens":  # type: ignore[override]
        return RowTokens(self.row, [*self, *more])


def tools_of(trainer: Any) -> list[Any]:
    """Returns the functions that the policy can call in an evaluation; none if TRL's loop does not take tokens."""
    loop = getattr(trainer, TOOL_LOOP, None)
    if loop is None or TAKES_TOKENS not in inspect.signature(loop).parameters:
        return []
    if (getattr(trainer, "environment_factories", None) or getattr(trainer, "environments", None)) and (
        not has_environments(trainer)
    ):
        return []
    return list(getattr(trainer, "tools", None) or [])


def with_tool_turns(
    trainer: Any,
    prompts: list[Any],
    prompt_ids: list[list[int]],
    tokens: list[list[int]],
    go_on: Callable[[list[RowTokens]], list[list[int]]],
    environments: list[Any] | None = None,
) -> tuple[list[list[dict[str, Any]]], list[list[int]]]:
    """Returns the messages of each completion, and its tokens including tool replies, after all turns.

    tokens: of each prompt's first turn. go_on: returns the new tokens of rows after a tool reply, in row order and
    perhaps for fewer rows than prompts. environments: of each prompt, or None.
    """
    tokenizer, of_rows = tokenizer_of(trainer), environments or [None] * len(prompts)
    first = [
        parse_response(tokenizer, new, old, tools_of_row(trainer, environment))
        for old, new, environment in zip(prompt_ids, tokens, of_rows, strict=True)
    ]
    rows = [RowTokens(row, ids) for row, ids in enumerate(prompt_ids)]
    with _in_place_of_training(trainer, of_rows, go_on):
        _, completions, completion_ids, *_ = getattr(trainer, TOOL_LOOP)(
            prompts=copy.deepcopy(prompts),  # the loop appends turns to them
            prompt_ids=rows,
            completion_ids=[list(ids) for ids in tokens],
            completions=[[message] for message in first],
            logprobs=None,
            images=None,
            multimodal_fields={},
        )
    return completions, completion_ids


@contextmanager
def _in_place_of_training(
    trainer: Any, environments: list[Any], go_on: Callable[[list[RowTokens]], list[list[int]]]
) -> Iterator[None]:
    """Makes the loop generate with go_on and use each row's tools; restores the trainer afterwards.

    environments: of each row, None where it has none.
    """
    called = [{tool.__name__: tool for tool in tools_of_row(trainer, environment)} for environment in environments]

    def turn(prompt_ids: list[RowTokens], *_: Any, **__: Any) -> tuple[list[list[int]], None]:
        return go_on(prompt_ids), None

    asynchronous = [{name: tool for name, tool in own.items() if inspect.iscoroutinefunction(tool)} for own in called]
    others = [{name: tool for name, tool in own.items() if not inspect.iscoroutinefunction(tool)} for own in called]
    stand_ins: dict[str, Any] = {
        TOOL_TURN: turn,
        OF_TOOLS[0]: others,
        OF_TOOLS[1]: asynchronous,
        OF_ROWS: [type(environment).__name__ if has_several(trainer) else None for environment in environments],
    }
    with ExitStack() as standing:
        for name, stand_in in stand_ins.items():
            standing.enter_context(replace_temporarily(trainer, name, stand_in, may_be_missing=True))
        yield


def tools_of_row(trainer: Any, environment: Any) -> list[Any]:
    """Returns what the policy can call in one row: tools, then the methods of the row's environment."""
    tools = tools_of(trainer)
    if environment is None:
        return tools
    return [tool for tool in tools if not inspect.ismethod(tool)] + methods_of(trainer, environment)
