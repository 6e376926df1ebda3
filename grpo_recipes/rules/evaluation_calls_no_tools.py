"""An evaluation of a training with tools is known to measure answers without them.

Held-out answers are made in one turn, and the prompts tell the model of no tool. What it learned to leave to a tool it
does by itself there, so the rewards of the evaluation are lower than those of the training, and `keep_best` and
`stop_after` go by them.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "TOL007"


def check(context: Context) -> Iterator[Finding]:
    if context.value("tools") and context.has_section("evaluation"):
        yield context.finding(
            ID,
            "the evaluation calls no tools",
            "evaluation",
            because=["held-out answers are made in one turn, and the model is told of no tool there"],
            fix="read its rewards as those of answers without tools, or leave evaluation out",
            severity="warning",
            mark=context.source.mark(("evaluation",)),
        )
