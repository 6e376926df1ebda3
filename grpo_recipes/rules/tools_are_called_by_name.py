"""A tool takes its arguments by their names, and has a name of its own.

TRL calls a tool as `tool(**arguments)` with what the model wrote. A parameter that is taken by position alone raises
TypeError at every call, which the model is told each time, and so does what is meant for *args; under **kwargs the
arguments arrive as one dictionary named kwargs, as the model was told. Of two tools with one name the model is told of
both, and the last one is called for either; methods of an environment come behind all tools. Nothing stops the
training.
"""

from collections.abc import Iterator, Mapping

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._tools.said_tools import SaidTool, called_methods, read_environment, said_tools, told_functions

ID = "TOL004"


def check(context: Context) -> Iterator[Finding]:
    seen: dict[str, SaidTool] = {}
    for number, tool in enumerate(said_tools(context)):
        if tool.name in seen:
            yield _again(context, number, tool, seen[tool.name])
        seen.setdefault(tool.name, tool)
    yield from _hidden(context, seen)
    for told in told_functions(context):
        function, mark = told.function, context.source.mark(told.place)
        where = f"{told.file}:{function.line}"
        by_position = [one.name for one in function.parameters if one.kind == "positional only"]
        if by_position:
            yield context.finding(
                ID,
                f"{where}: {function.name} takes {', '.join(by_position)} by position only",
                told.section,
                because=["TRL calls it with keywords: TypeError, which the model is told at every call"],
                fix="remove the / from its parameters",
                mark=mark,
            )
        for one in function.parameters:
            if one.kind in ("*", "**"):
                yield context.finding(
                    ID,
                    f"{where}: {function.name} has {one.kind}{one.name}, which no model can fill",
                    told.section,
                    because=[
                        f"the model is told of a parameter {one.name}, and TRL passes what it writes as {one.name}="
                    ],
                    fix="a parameter with a name and a type hint for each value",
                    mark=mark,
                )


def _hidden(context: Context, tools: Mapping[str, SaidTool]) -> Iterator[Finding]:
    """Tools that methods of the environment stand in front of."""
    environment = read_environment(context)
    if environment is None:
        return
    said, found = environment
    for name, method in called_methods(found).items():
        if name in tools:
            yield context.finding(
                ID,
                f"a tool and a method of {said.name} are called {name}",
                "tools",
                because=[
                    f"{said.file}:{method.function.line} has the method",
                    "TRL tells the model of both and calls the method for either",
                ],
                fix="give one of them another name",
                mark=context.source.mark(tools[name].place),
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
