"""What playing a conversation with the tools showed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from grpo_recipes.contract.findings.finding import Path
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.preflight._shared.reward_seen import cut

PLAYED = "with tools"
"""The kind of completion that calls tools."""


@dataclass(frozen=True, slots=True)
class Described:
    """One tool as the model is told of it. schema: as transformers makes it of the function, None where it cannot.

    error: why it cannot.
    """

    name: str
    schema: dict[str, Any] | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call and what the model is told then.

    is_turn: it is a turn of the played completion, and not tried beside it. answer: text, or blocks of text; error:
    where it failed. by: "raised", "time" or "end" for a call that failed, "killed" where preflight's own process
    was ended in it, with end saying how; "" for one that did not. place: the user's line.
    """

    tool: str
    arguments: dict[str, Any]
    is_turn: bool
    answer: str | list[dict[str, Any]] = ""
    error: str = ""
    by: Literal["", "raised", "time", "end", "killed"] = ""
    end: str = ""
    place: str = ""
    seconds: float = 0.0

    @property
    def message(self) -> dict[str, Any]:
        """The tool's message as TRL puts it into the conversation."""
        content: Any = {"error": self.error} if self.by else self.answer
        return {"role": "tool", "name": self.tool, "content": content if isinstance(content, list) else str(content)}

    @property
    def text(self) -> str:
        """The answer in one text."""
        content = self.message["content"]
        return content if isinstance(content, str) else "\n".join(str(block.get("text", "")) for block in content)


@dataclass(frozen=True, slots=True)
class Reset:
    """An environment that was reset. row: the place in the sample. added: behind the prompt's last message.

    error: what it raised, or how the process was ended within it, "" for a reset that worked.
    """

    row: int
    added: str = ""
    error: str = ""
    place: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ToolsSeen:
    """Tools, or the methods of an environment, tried without the model.

    tools: as the model is told of them, in their order. scripted: the recipe says the turns. answer: the last words,
    None where the right answer of a row stands there. problem: why nothing could be played, with its line; "" else.
    get_reward: what the environment gave for the completion, None where it has no reward of its own; reward_problem:
    what kept it from that. time_limit: seconds after which the process of all of this is ended in a call.
    """

    tools: tuple[Described, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    resets: tuple[Reset, ...] = ()
    scripted: bool = False
    answer: str | None = None
    problem: str = ""
    place: str = ""
    get_reward: float | None = None
    time_limit: float = 0.0
    reward_problem: str = ""

    @property
    def prompts(self) -> frozenset[str]:
        """What the environment says behind the prompts that it was reset for; empty unless it does so for each."""
        added = frozenset(one.added.strip() for one in self.resets)
        return frozenset() if "" in added else added

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """What a prompt is rendered with."""
        return [one.schema for one in self.tools if one.schema is not None]

    @property
    def turns(self) -> tuple[ToolCall, ...]:
        """The calls of the played completion."""
        return tuple(call for call in self.calls if call.is_turn)

    @property
    def has_end(self) -> bool:
        """Whether the played completion has last words, and does not end with a reply."""
        return self.answer is not None or not self.scripted

    def completion(self, answer: str) -> list[dict[str, Any]]:
        """The played completion as TRL gives it to rewards, with these last words."""
        messages: list[dict[str, Any]] = []
        for call in self.turns:
            function = {"name": call.tool, "arguments": call.arguments}
            calls = [{"type": "function", "function": function}]
            messages += [{"role": "assistant", "content": "", "tool_calls": calls}, call.message]
        return [*messages, {"role": "assistant", "content": answer}] if self.has_end else messages


def in_rows(tools: ToolsSeen, rows: Sequence[int]) -> ToolsSeen:
    """The tools with the places of the sample that resets were for."""
    return replace(tools, resets=tuple(replace(one, row=rows[one.row]) for one in tools.resets))


def joined(each: Sequence[ToolsSeen]) -> ToolsSeen:
    """What several environments showed, one behind the other; the played completion is that of the first."""
    beside = [replace(one, is_turn=False) for tools in each[1:] for one in tools.calls]
    return ToolsSeen(
        tools=tuple({one.name: one for tools in each for one in tools.tools}.values()),
        calls=(*(one for tools in each[:1] for one in tools.calls), *beside),
        resets=tuple(one for tools in each for one in tools.resets),
        scripted=any(tools.scripted for tools in each),
        answer=next((tools.answer for tools in each if tools.answer is not None), None),
        problem=next((tools.problem for tools in each if tools.problem), ""),
        place=next((tools.place for tools in each if tools.problem), ""),
        get_reward=next((tools.get_reward for tools in each if tools.get_reward is not None), None),
        time_limit=max((tools.time_limit for tools in each), default=0.0),
        reward_problem=next((tools.reward_problem for tools in each if tools.reward_problem), ""),
    )


def by_tool(tools: ToolsSeen) -> dict[str, list[ToolCall]]:
    """The calls of each tool, in their order."""
    found: dict[str, list[ToolCall]] = {}
    for call in tools.calls:
        found.setdefault(call.tool, []).append(call)
    return found


def call_text(call: ToolCall) -> str:
    """A call as Python writes it, on one line."""
    return cut(f"{call.tool}({', '.join(f'{name}={value!r}' for name, value in call.arguments.items())})", 120)


def place_in_recipe(plan: Plan, tool: str) -> Path:
    """The key at which the recipe names a tool; that of the environment for a method of it."""
    names = [one.name for one in plan.tools]
    if tool in names:
        return ("tools", names.index(tool), "python")
    key = next(iter(plan.all_environments), None)
    return ("preflight", "turns") if key is None else (key.partition(".")[0],)
