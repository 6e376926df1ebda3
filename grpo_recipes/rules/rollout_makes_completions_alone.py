"""A rollout makes all completions, and it alone.

With `tools` or an `environment` TRL goes on behind a rollout with its own loop of calls and does not read the rollout's
`env_mask`: what is not the policy's would be trained on, and nothing says so. Held-out rows are answered by the policy
itself, a row and a seed at a time, which no rollout can be asked for: the evaluation would measure something else than
what is trained.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._tools.said_tools import said_code

ID = "TOL012"


def check(context: Context) -> Iterator[Finding]:
    if said_code(context, "rollout") is None:
        return
    for section in ("tools", "environment"):
        if context.value("tools") if section == "tools" else said_code(context, section) is not None:
            yield context.finding(
                ID,
                f"a rollout and {'tools' if section == 'tools' else 'an environment'} do not go together",
                section,
                because=["TRL calls tools behind the rollout too, and then reads no env_mask of it"],
                fix=f"call them in the rollout, or remove {section} or the rollout",
                mark=context.source.mark((section,)),
            )
    if context.has_section("evaluation"):
        yield context.finding(
            ID,
            "held-out rows cannot be answered by a rollout",
            "evaluation",
            because=["the policy would answer them itself in one turn, which is not what is trained"],
            fix="evaluation: null",
            patch=[Patch(("evaluation",), None)],
            mark=context.source.mark(("evaluation",)),
        )
