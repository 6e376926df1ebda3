"""The results of playing a conversation with the tools."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from grpo_recipes.contract.findings.finding import Path
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.preflight._shared.reward_seen import cut

PLAYED = "with tools"
"""The kind of a completion that calls tools and ends as the recipe's turns do, or else with a right answer."""
RIGHT_AFTER_CALLS = "gold after calls"
"""The kind of one that makes the calls of the recipe's turns, which end differently, and has a right answer."""


@dataclass(frozen=True, slots=True)
class Described:
    """A tool as described to the model. schema: made by transformers, None if it cannot. error: why it cannot."""

    name: str
    schema: dict[str, Any] | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call and its reply.

    is_turn: whether it is part of the played completion, not tried separately. answer: text, or blocks of text; error:
    whether it failed. is_example: all its arguments are examples of the tool's description. by: "raised", "time" or
    "end" for a failed call, "killed" if preflight's own process ended during it; "" for success. end: how that process
    ended. place: the user's line.
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
    is_example: bool = False

    @property
    def message(self) -> dict[str, Any]:
        """Returns the tool message that TRL adds to the conversation."""
        content: Any = {"error": self.error} if self.by else self.answer
        return {"role": "tool", "name": self.tool, "content": content if isinstance(content, list) else str(content)}

    @property
    def text(self) -> str:
        """Returns the answer as one text."""
        content = self.message["content"]
        return content if isinstance(content, str) else "\n".join(str(block.get("text", "")) for block in content)


@dataclass(frozen=True, slots=True)
class Reset:
    """An environment's reset. row: its index in the sample. added: what it appended to the last message.

    error: what it raised, or how its process ended, "" for success.
    """

    row: int
    added: str = ""
    error: str = ""
    place: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ToolsSeen:
    """Tools, or the methods of an environment, tried without the model.

    tools: as described to the model, in order. scripted: the recipe gives the turns. answer: the final message, None
    for the row's right answer. problem: why nothing could be played, with its line; "" else. get_reward: the
    environment's reward for the completion, None if it has no reward; reward_problem: why it failed. time_limit:
    seconds after which the process is killed during a call. varying, leftovers: see play_tools.Player.
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
    varying: Mapping[str, Sequence[str]] = field(default_factory=dict)
    leftovers: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def prompts(self) -> frozenset[str]:
        """Returns the texts that resets appended to prompts; empty unless every reset appended one."""
        added = frozenset(reset.added.strip() for reset in self.resets)
        return frozenset() if "" in added else added

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """Returns the tool schemas for the chat template."""
        return [tool.schema for tool in self.tools if tool.schema is not None]

    @property
    def turns(self) -> tuple[ToolCall, ...]:
        """Returns the calls of the played completion."""
        return tuple(call for call in self.calls if call.is_turn)

    @property
    def has_end(self) -> bool:
        """Whether the played completion ends with a final message, not with a reply."""
        return self.answer is not None or not self.scripted

    def completion(self, answer: str | None) -> list[dict[str, Any]]:
        """Returns the played calls as TRL passes them to rewards, with this final message; None for none."""
        messages: list[dict[str, Any]] = []
        for call in self.turns:
            function = {"name": call.tool, "arguments": call.arguments}
            calls = [{"type": "function", "function": function}]
            messages += [{"role": "assistant", "content": "", "tool_calls": calls}, call.message]
        return messages if answer is None else [*messages, {"role": "assistant", "content": answer}]


def in_rows(tools: ToolsSeen, rows: Sequence[int]) -> ToolsSeen:
    """Returns the tools with the sample's indices for the resets."""
    return replace(tools, resets=tuple(replace(reset, row=rows[reset.row]) for reset in tools.resets))


def concatenate(each: Sequence[ToolsSeen]) -> ToolsSeen:
    """Returns the results of several environments, concatenated; the played completion is the first one's."""
    beside = [replace(call, is_turn=False) for tools in each[1:] for call in tools.calls]
    return ToolsSeen(
        tools=tuple({tool.name: tool for tools in each for tool in tools.tools}.values()),
        calls=(*(call for tools in each[:1] for call in tools.calls), *beside),
        resets=tuple(reset for tools in each for reset in tools.resets),
        scripted=any(tools.scripted for tools in each),
        answer=next((tools.answer for tools in each if tools.answer is not None), None),
        problem=next((tools.problem for tools in each if tools.problem), ""),
        place=next((tools.place for tools in each if tools.problem), ""),
        get_reward=next((tools.get_reward for tools in each if tools.get_reward is not None), None),
        time_limit=max((tools.time_limit for tools in each), default=0.0),
        reward_problem=next((tools.reward_problem for tools in each if tools.reward_problem), ""),
    )


def by_tool(tools: ToolsSeen) -> dict[str, list[ToolCall]]:
    """Returns the calls by tool, in order."""
    calls: dict[str, list[ToolCall]] = {}
    for call in tools.calls:
        calls.setdefault(call.tool, []).append(call)
    return calls


def call_text(call: ToolCall) -> str:
    """Returns a call in Python syntax, on one line."""
    return cut(f"{call.tool}({', '.join(f'{name}={value!r}' for name, value in call.arguments.items())})", 120)


def place_in_recipe(plan: Plan, tool: str) -> Path:
    """Returns the key where the recipe names a tool, or the environment of a method."""
    names = [entry.name for entry in plan.tools]
    if tool in names:
        return ("tools", names.index(tool), "python")
    key = next(iter(plan.all_environments), None)
    return ("preflight", "turns") if key is None else (key.partition(".")[0],)
