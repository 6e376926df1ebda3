"""A tool returns its answer, and does not yield it.

A call of a function with `yield` returns a generator, and nothing of it runs. TRL tells the model the text of what a
call returns: <generator object add at 0x7f...>, at every call. Nothing stops the training.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._tools.said_tools import told_functions

ID = "TOL014"


def check(context: Context) -> Iterator[Finding]:
    for told in told_functions(context):
        function = told.function
        if function.yields and not function.is_decorated:
            yield context.finding(
                ID,
                f"{told.file}:{function.line}: {function.name} yields, so that a call returns a generator",
                told.section,
                because=[f"the model is told its name alone: <generator object {function.name} at 0x7f...>"],
                fix='return what is yielded, as "\\n".join(parts)',
                mark=context.source.mark(told.place),
            )
