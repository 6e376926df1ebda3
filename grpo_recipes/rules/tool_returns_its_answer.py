"""A tool returns its answer instead of yielding it.

A call of a function with `yield` returns a generator, and none of its code runs. TRL gives the model the text of the
result: <generator object add at 0x7f...>, at every call. Nothing stops the training.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.said_tools import told_functions

ID = "TOL014"


def check(context: Context) -> Iterator[Finding]:
    for told in told_functions(context):
        function = told.function
        if function.yields and not function.is_decorated:
            said = f"{told.file}:{function.line}: {function.name} yields, so a call returns a generator"
            because = f"the model gets only its name: <generator object {function.name} at 0x7f...>"
            fix = 'return the parts together, as "\\n".join(parts)'
            yield context.finding(said, told.section, because, fix=fix, mark=context.source.mark(told.place))
