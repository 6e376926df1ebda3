"""A tool returns its answer instead of yielding it.

A function with `yield` returns a generator and runs none of its code. At every call, TRL gives the model the text
<generator object add at 0x7f...>. Training continues.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.said_tools import functions_for_model

ID = "TOL014"


def check(context: Context) -> Iterator[Finding]:
    for tool in functions_for_model(context):
        function = tool.function
        if function.yields and not function.is_decorated:
            message = f"{tool.file}:{function.line}: {function.name} returns a generator, because it yields"
            because = f"the model gets only the text <generator object {function.name} at 0x7f...>"
            fix = 'return all parts together: "\\n".join(parts)'
            yield context.finding(message, tool.section, because, fix=fix, mark=context.source.mark(tool.place))
