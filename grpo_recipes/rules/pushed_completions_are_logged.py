"""Completions that are pushed to the hub are also logged.

log_completions_hub_repo pushes the tables that log_completions writes; GRPOConfig raises ValueError without them.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "GRP005"
REPOSITORY = "GRPOConfig.log_completions_hub_repo"


def check(context: Context) -> Iterator[Finding]:
    if context.value(REPOSITORY) is not None and context.value("GRPOConfig.log_completions") is not True:
        message = "log_completions_hub_repo needs log_completions"
        because = "GRPOConfig raises ValueError without logging.log_completions"
        yield context.wrong(message, REPOSITORY, because, True, at=("logging", "log_completions"))
