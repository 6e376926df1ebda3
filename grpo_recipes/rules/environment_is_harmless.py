"""A recipe's environment loads no code and carries no secret.

LD_PRELOAD, PYTHONPATH and their like run code before the training starts, without anybody having allowed it; a token
in a recipe travels with the file. Both are refused.
"""

from collections.abc import Iterator

from grpo_recipes.finding import Finding, Patch
from grpo_recipes.rules.context import Context
from grpo_recipes.trust.environment import refused

ID = "TRU001"


def check(context: Context) -> Iterator[Finding]:
    for name, value in context.mapping("launch.environment").items():
        reason = refused(name, str(value))
        if reason is None:
            continue
        path = ("launch", "environment", name)
        yield context.finding(
            ID,
            f"environment variable {name} is refused",
            "launch.environment",
            because=[reason],
            fix=f"remove {name}, and set it in the shell if the machine needs it",
            patch=[Patch(path, remove=True)],
            mark=context.source.mark(path),
        )
