"""preflight.turns are possible turns of this recipe.

preflight.turns scripts the model's side: each turn calls a tool that the recipe has, or is the answer that ends the
completion. TRL continues after a turn that calls a tool. It ends the completion at a turn that does not, or after
generation.max_tool_calling_iterations replies, so training would never reach later turns.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.said_tools import methods_for_model, read_environment, tools_of_recipe

ID = "TOL013"
TURNS = "preflight.turns"
ENVIRONMENT = "environment"
MOST_REPLIES = "GRPOConfig.max_tool_calling_iterations"


def check(context: Context) -> Iterator[Finding]:
    turns = context.value(TURNS)
    if not isinstance(turns, list) or not turns:
        return
    known, environment = [tool.name for tool in tools_of_recipe(context)], read_environment(context)
    known += [] if environment is None else methods_for_model(environment[1])
    # A class that cannot be read, or has a base class in another file, may have more methods than the file shows.
    is_open = context.has_section(ENVIRONMENT) if environment is None else environment[1].is_open
    if not known and not is_open:
        message = "preflight.turns needs tools, but the recipe has none"
        because = "without tools a completion is a single turn, and preflight takes it from the data"
        yield context.wrong(message, TURNS, because, fix="remove preflight.turns")
        return
    for index, turn in enumerate(turns):
        yield from _turn(context, index, turn, known, is_open=is_open)
    yield from _behind_the_end(context, turns)


def _turn(
    context: Context, index: int, turn: dict[str, object], known: list[str], *, is_open: bool
) -> Iterator[Finding]:
    tool, path = turn["tool"], ("preflight", "turns", index)
    if (tool is None) == (turn["answer"] is None):
        message = f"turn {index + 1} has {'neither a tool nor' if tool is None else 'both a tool and'} an answer"
        because = "a turn either calls a tool or ends the completion"
        fix = "{tool: NAME, arguments: {...}}, or {answer: TEXT}"
        yield context.finding(message, TURNS, because, fix=fix, mark=context.source.mark(path))
    elif tool is None and turn["arguments"]:
        message = f"turn {index + 1} has arguments but no tool"
        because = "an answer takes no arguments"
        yield context.finding(message, TURNS, because, fix="remove arguments", mark=context.source.mark(path))
    elif tool is not None and tool not in known and not is_open:
        close = nearest_words(str(tool), known, cutoff=0.5)
        yield context.finding(
            f"turn {index + 1} calls {tool}, which is not a tool of the recipe",
            TURNS,
            f"its tools are {', '.join(known)}",
            fix=f"write it as {close[0]}" if close else f"tool: {known[0]}",
            patch=[Patch((*path, "tool"), close[0])] if close else [],
            mark=context.source.mark((*path, "tool")),
        )


def _behind_the_end(context: Context, turns: list[dict[str, object]]) -> Iterator[Finding]:
    ends = [index for index, turn in enumerate(turns) if turn["tool"] is None and turn["answer"] is not None]
    if ends and ends[0] + 1 < len(turns):
        yield context.finding(
            f"turn {ends[0] + 2} comes after the answer of turn {ends[0] + 1}",
            TURNS,
            "a completion ends with the first turn that calls no tool",
            fix="put the calls before the answer, with only one answer",
            mark=context.source.mark(("preflight", "turns", ends[0] + 1)),
        )
    most = context.value(MOST_REPLIES)
    calls = [index for index, turn in enumerate(turns) if turn["tool"] is not None]
    if isinstance(most, int) and len(calls) > most:
        yield context.finding(
            f"turn {calls[most] + 1} is call {most + 1}, but a completion may have at most {most}",
            TURNS,
            f"generation.max_tool_calling_iterations is {most}, so TRL would not call the tool of this turn",
            fix=f"fewer turns, or max_tool_calling_iterations: {len(calls)}",
            severity="warning",
            mark=context.source.mark(("preflight", "turns", calls[most])),
        )
