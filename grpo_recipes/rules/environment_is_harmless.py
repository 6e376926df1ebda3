"""A recipe's environment variables load no code and contain no secret.

LD_PRELOAD, PYTHONPATH and similar variables run code before the training starts, without anyone's consent, and a token
in a recipe travels with the file. Both are refused. A list names harmless tuning variables and the form of their
values; a recipe may set these. The name of any other variable does not show whether it loads code, writes files or
sends data, so a run asks for consent, as for a reward file.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.trust.environment import needs_consent, refused, why_asked

ID = "TRU001"


def check(context: Context) -> Iterator[Finding]:
    for name, value in context.mapping("launch.environment").items():
        reason = refused(name, str(value))
        if reason is not None:
            path = ("launch", "environment", name)
            said = f"environment variable {name} is refused"
            fix = f"remove {name}, and set it in the shell if the machine needs it"
            yield context.wrong(said, "launch.environment", reason, at=path, fix=fix)
        elif needs_consent(name, str(value)):
            yield context.finding(
                f"environment variable {name} needs your consent at run",
                "launch.environment",
                why_asked(name),
                fix=f"--allow-code with the sha256 that run prints, or set {name} in the shell that starts grpo-run",
                severity="note",
                mark=context.source.mark(("launch", "environment", name)),
            )
