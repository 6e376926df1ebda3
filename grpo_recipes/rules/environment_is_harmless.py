"""A recipe's environment variables load no code and contain no secret.

LD_PRELOAD, PYTHONPATH and similar variables run code before the training starts, without anyone's consent, and a token
in a recipe travels with the file. Both are refused. A recipe may set known tuning variables, such as those of NCCL and
OpenMP, to numbers, switches and words. The name of any other variable does not show whether it loads code, writes files
or sends data, so a run asks for consent, as for a reward file.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.trust.environment import needs_consent, why_asked, why_refused

ID = "TRU001"


def check(context: Context) -> Iterator[Finding]:
    for name, value in context.mapping("launch.environment").items():
        reason = why_refused(name, str(value))
        if reason is not None:
            path = ("launch", "environment", name)
            message = f"environment variable {name} is refused"
            fix = f"remove {name}, and set it in the shell if the machine needs it"
            yield context.wrong(message, "launch.environment", reason, at=path, fix=fix)
        elif needs_consent(name, str(value)):
            yield context.finding(
                f"environment variable {name} needs your consent at run",
                "launch.environment",
                why_asked(name),
                fix=f"--allow-code with the sha256 that run prints, or set {name} in the shell that starts grpo-run",
                severity="note",
                mark=context.source.mark(("launch", "environment", name)),
            )
