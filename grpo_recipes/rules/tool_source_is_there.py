"""A tool is a function of a file that is there.

The file is looked for beside the one that names it, and read, never run, until a run is allowed to; files beside it
that it imports are read and allowed with it. The training processes would end with FileNotFoundError or AttributeError
after all their imports.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.nearest import nearest_words
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._tools.said_tools import SaidTool, said_tools
from grpo_recipes.user_files.functions.documented import documented
from grpo_recipes.user_files.reward_imports import imported_beside

ID = "TOL002"


def check(context: Context) -> Iterator[Finding]:
    for tool in said_tools(context):
        yield from _of_one(context, tool)


def _of_one(context: Context, tool: SaidTool) -> Iterator[Finding]:
    mark = context.source.mark(tool.place)
    try:
        functions = documented(tool.path)
    except OSError as error:
        because = [f"looked for {tool.path}"]
        yield context.finding(ID, f"{tool.file}: {error.strerror or error}", "tools", because=because, mark=mark)
        return
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        text = error.msg if isinstance(error, SyntaxError) else error
        because = ["the file is no Python source"]
        yield context.finding(ID, f"{tool.file}{line}: {text}", "tools", because=because, mark=mark)
        return
    if tool.name not in functions:
        close = nearest_words(tool.name, functions, cutoff=0.5)
        yield context.finding(
            ID,
            f"{tool.file} has no function {tool.name}",
            "tools",
            because=[f"its functions are {', '.join(functions) or 'none'}"],
            fix=f"python: {tool.file}:{close[0]}" if close else None,
            patch=[Patch(tool.place, f"{tool.file}:{close[0]}")] if close else [],
            mark=mark,
        )
        return
    try:
        imported_beside(tool.path)
    except (OSError, ValueError) as error:
        because = ["what a tool imports from its own folder is copied into the run folder with it"]
        yield context.finding(
            ID,
            (error.strerror if isinstance(error, OSError) else None) or str(error),
            "tools",
            because=because,
            fix="put what it needs into the file or into one beside it, or install the package and keep it elsewhere",
            mark=mark,
        )
