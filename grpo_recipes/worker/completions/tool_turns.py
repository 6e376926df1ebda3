"""Held-out rows answered with the tools of the training: TRL's own loop of calls and replies, in which the policy goes
on as the evaluation generates.

Not before trl 1.0, whose loop makes the tokens of all turns anew from the messages: there rows are answered in one
turn.
"""

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from grpo_recipes.worker._shared.inputs import replaced
from grpo_recipes.worker._shared.library import parsed_response
from grpo_recipes.worker.ends.ends import tokenizer_of

# Source: trl 1.0.0 to 1.16.0 grpo_trainer.py (_tool_call_loop).
LOOP = "_tool_call_loop"
TAKES_TOKENS = "multimodal_fields"
GOES_ON = "_generate_single_turn"
BY_NAME = ("_sync_tool_dicts", "_async_tool_dicts")
# Which environment each row of a batch has, by its name; a single one has none. Since trl 1.8.
OF_ROWS = "_batch_environments"
# The column that says so.
NAMES = "environment"

_FACTORY = "held_out_environment"

Row = dict[str, Any]
Factories = Callable[[], Any] | dict[str, Callable[[], Any]]


class RowTokens(list[int]):
    """The tokens of a row, to which TRL adds those of its turns. row: its place, by which its numbers are drawn."""

    def __init__(self, row: int, tokens: list[int]) -> None:
        super().__init__(tokens)
        self.row = row

    def __add__(self, more: list[int]) -> "RowTokens":  # type: ignore[override]
        return RowTokens(self.row, [*self, *more])


def tools_of(trainer: Any) -> list[Any]:
    """The functions that the policy can call in an evaluation, none where no loop of a trainer takes tokens for it."""
    loop = getattr(trainer, LOOP, None)
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
    """The messages of each completion, and its tokens with those of the tools' replies, after all turns.

    tokens: of each prompt's first turn. go_on: gives the new tokens of rows that a tool replied to, here in the order
    of their places and perhaps fewer than there are prompts. environments: of each prompt, None without any.
    """
    tokenizer, of_rows = tokenizer_of(trainer), environments or [None] * len(prompts)
    first = [
        parsed_response(tokenizer, new, old, tools_of_row(trainer, environment))
        for old, new, environment in zip(prompt_ids, tokens, of_rows, strict=True)
    ]
    rows = [RowTokens(row, ids) for row, ids in enumerate(prompt_ids)]
    with _in_place_of_training(trainer, of_rows, go_on):
        _, completions, completion_ids, *_ = getattr(trainer, LOOP)(
            prompts=copy.deepcopy(prompts),  # the loop adds the turns to them
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
    """Lets the loop generate with go_on and find the tools of each row; then the trainer is as before.

    environments: of each row, None where it has none.
    """
    called = [{tool.__name__: tool for tool in tools_of_row(trainer, one)} for one in environments]

    def turn(prompt_ids: list[RowTokens], *_: Any, **__: Any) -> tuple[list[list[int]], None]:
        return go_on(prompt_ids), None

    asynchronous = [{name: one for name, one in own.items() if inspect.iscoroutinefunction(one)} for own in called]
    others = [{name: one for name, one in own.items() if not inspect.iscoroutinefunction(one)} for own in called]
    stand_ins: dict[str, Any] = {
        GOES_ON: turn,
        BY_NAME[0]: others,
        BY_NAME[1]: asynchronous,
        OF_ROWS: [type(one).__name__ if has_several(trainer) else None for one in environments],
    }
    with ExitStack() as standing:
        for name, stand_in in stand_ins.items():
            standing.enter_context(replaced(trainer, name, stand_in))
        yield


def tools_of_row(trainer: Any, environment: Any) -> list[Any]:
    """What the policy can call in one row: tools, then methods of the row's environment."""
    tools = tools_of(trainer)
    if environment is None:
        return tools
    return [tool for tool in tools if not inspect.ismethod(tool)] + methods_of(trainer, environment)


# The environments of held-out rows: an object for each completion, made for it and reset with its row, as TRL does it.
#
# They are other objects than those of the training, so that an evaluation leaves these as they were.


def answer_held_out_rows_with(trainer: Any, factory: Factories | None) -> None:
    """From now on held-out rows have objects of this environment, or of these; None for a training without one."""
    setattr(trainer, _FACTORY, factory)


def has_several(trainer: Any) -> bool:
    """Whether rows have one of several environments, whose class has the name that the row names."""
    return isinstance(getattr(trainer, _FACTORY, None), dict)


def has_environments(trainer: Any) -> bool:
    """Whether completions of held-out rows have an environment each."""
    return getattr(trainer, _FACTORY, None) is not None


def with_environments(trainer: Any, rows: list[Row]) -> tuple[list[Row], list[Any] | None]:
    """The rows with what their environments say at the reset behind their prompts, and these; None without any."""
    factory = getattr(trainer, _FACTORY, None)
    if factory is None:
        return rows, None
    own = [factory[row[NAMES]] if isinstance(factory, dict) else factory for row in rows]
    environments = [make() for make in own]
    without = {NAMES} if isinstance(factory, dict) else set()
    return [_reset(one, row, without) for one, row in zip(environments, rows, strict=True)], environments


def _reset(environment: Any, row: Row, without: set[str]) -> Row:
    """without: columns that it does not get. Source: trl 1.16.0 grpo_trainer.py (_generate_and_score_completions)."""
    observation = environment.reset(**{name: value for name, value in row.items() if name not in without})
    if observation is None:
        return row
    *before, last = row["prompt"]
    content = last["content"]
    if isinstance(observation, list) and isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if isinstance(observation, str) and isinstance(content, list):
        observation = [{"type": "text", "text": observation}]
    return {**row, "prompt": [*before, {**last, "content": content + observation}]}


def methods_of(trainer: Any, environment: Any) -> list[Any]:
    """The methods of an object that the policy can call: those of the training's objects, by their names."""
    names = {tool.__name__ for tool in trainer.tools if type(getattr(tool, "__self__", None)) is type(environment)}
    return [getattr(environment, name) for name in sorted(names)]
