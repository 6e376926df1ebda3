"""A tool takes its arguments by their names, and has a name of its own.

TRL calls a tool as `tool(**arguments)` with what the model wrote. A parameter that is taken by position alone raises
TypeError at every call, which the model is told each time, and so does what is meant for *args; under **kwargs the
arguments arrive as one dictionary named kwargs, as the model was told. Of two tools with one name the model is told of
both, and the last one is called for either. Nothing stops the training.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._tools.said_tools import SaidTool, read_tools, said_tools

ID = "TOL004"


def check(context: Context) -> Iterator[Finding]:
    seen: dict[str, SaidTool] = {}
    for number, tool in enumerate(said_tools(context)):
        if tool.name in seen:
            yield _again(context, number, tool, seen[tool.name])
        seen.setdefault(tool.name, tool)
    for tool, function in read_tools(context):
        where = f"{tool.file}:{function.line}"
        by_position = [one.name for one in function.parameters if one.kind == "positional only"]
        if by_position:
            yield context.finding(
                ID,
                f"{where}: {tool.name} takes {', '.join(by_position)} by position only",
                "tools",
                because=["TRL calls it with keywords: TypeError, which the model is told at every call"],
                fix="remove the / from its parameters",
                mark=context.source.mark(tool.place),
            )
        for one in function.parameters:
            if one.kind in ("*", "**"):
                yield context.finding(
                    ID,
                    f"{where}: {tool.name} has {one.kind}{one.name}, which no model can fill",
                    "tools",
                    because=[
                        f"the model is told of a parameter {one.name}, and TRL passes what it writes as {one.name}="
                    ],
                    fix="a parameter with a name and a type hint for each value",
                    mark=context.source.mark(tool.place),
                )


def _again(context: Context, number: int, tool: SaidTool, first: SaidTool) -> Finding:
    is_same = tool.path == first.path
    return context.finding(
        ID,
        f"two tools are called {tool.name}",
        "tools",
        because=["TRL calls a tool by the name of its function, and of two with one name the last"],
        fix=f"remove tools[{number}]" if is_same else "give one of the functions another name",
        patch=[Patch(("tools", number), remove=True)] if is_same else [],
        mark=context.source.mark(tool.place),
    )
