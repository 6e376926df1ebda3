"""The training process was tested with this release of transformers.

It was run with trl 0.14.0 to 1.16.0 on transformers 4.48.3 to 5.24.0. transformers 4.46 and 4.47, which trl up to 0.17
still accepts, pass different arguments to the trainer's methods and to a model's forward pass.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "STK014"
APPLIES_TO = {"transformers": "<4.48"}


def check(context: Context) -> Iterator[Finding]:
    message = f"grpo-run was never tested with transformers {context.stack.version('transformers')}"
    because = "4.48.3 is the oldest release that its training process was tested with"
    yield context.finding(message, "recipe", because, fix="transformers==4.48.3")
