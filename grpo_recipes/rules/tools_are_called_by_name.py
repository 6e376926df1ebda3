"""A tool takes its arguments by name, and has a unique name.

TRL calls a tool as `tool(**arguments)` with the model's arguments. A positional-only parameter raises TypeError at
every call, and so do values for *args; the model sees the error each time. For **kwargs the model's description has one
parameter kwargs, and TRL passes its value as kwargs=. If two tools share a name, the model sees both, but TRL calls the
last for both; methods of an environment come after all tools. Training continues.
"""

from collections.abc import Iterator, Mapping

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.said_tools import (
    SaidCode,
    functions_for_model,
    methods_for_model,
    read_environment,
    tools_of_recipe,
)

ID = "TOL004"


def check(context: Context) -> Iterator[Finding]:
    tools: dict[str, SaidCode] = {}
    for number, tool in enumerate(tools_of_recipe(context)):
        if tool.name in tools:
            yield _again(context, number, tool, tools[tool.name])
        tools.setdefault(tool.name, tool)
    yield from _find_replaced_tools(context, tools)
    for callee in functions_for_model(context):
        function, mark = callee.function, context.source.mark(callee.place)
        where = f"{callee.file}:{function.line}"
        by_position = [parameter.name for parameter in function.parameters if parameter.kind == "positional only"]
        if by_position:
            message = f"{where}: {function.name} accepts {', '.join(by_position)} only by position"
            because = "TRL calls it with keywords; the model gets a TypeError at every call"
            yield context.finding(message, callee.section, because, fix="remove the / from its parameters", mark=mark)
        for parameter in function.parameters:
            if parameter.kind in ("*", "**"):
                message = f"{where}: {function.name} has {parameter.kind}{parameter.name}, which a model cannot fill"
                because = f"the model sees a parameter {parameter.name}, and TRL passes its value as {parameter.name}="
                yield context.finding(
                    message,
                    callee.section,
                    because,
                    fix="use a parameter with a name and a type hint for each value",
                    mark=mark,
                )


def _find_replaced_tools(context: Context, tools: Mapping[str, SaidCode]) -> Iterator[Finding]:
    """Findings for tools that methods of the environment replace."""
    environment = read_environment(context)
    if environment is None:
        return
    code, environment_class = environment
    for name, method in methods_for_model(environment_class).items():
        if name in tools:
            yield context.finding(
                f"a tool and a method of {code.name} are called {name}",
                "tools",
                [
                    f"the method is at {code.file}:{method.function.line}",
                    "TRL shows the model both, but calls only the method",
                ],
                fix="rename one of them",
                mark=context.source.mark(tools[name].place),
            )


def _again(context: Context, number: int, tool: SaidCode, first: SaidCode) -> Finding:
    is_same = tool.path == first.path
    return context.finding(
        f"two tools are called {tool.name}",
        "tools",
        "TRL selects a tool by its function's name, and calls only the last of the two",
        fix=f"remove tools[{number}]" if is_same else "rename one of the functions",
        patch=[Patch(("tools", number), remove=True)] if is_same else [],
        mark=context.source.mark(tool.place),
    )
