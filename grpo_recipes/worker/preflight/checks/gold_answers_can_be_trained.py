"""The gold answers of a warm start are completions that generation could give.

What: the tokens of the gold answers of the examined rows, after their prompts, with the end of the turn. Reported are
answers that are empty, that are longer than max_completion_length, or in which generation would stop before their end.
Why: a warm start leaves such rows out, so it trains fewer rows than the data has; without any row it ends the run.
Fix: a larger max_completion_length, or a different template.
Example: the gold answers of 3 of 32 rows cannot be trained
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL068"


def check(inputs: Seen) -> Iterator[Finding]:
    reasons = [
        f"row {inputs.data.number(index)} {reason}"
        for index, reason in zip(inputs.sample, inputs.golds, strict=False)
        if isinstance(reason, str) and inputs.data is not None
    ]
    if reasons:
        yield warning(
            f"the gold answers of {len(reasons)} of {len(inputs.golds)} rows cannot be trained",
            ("warm_start", "answer"),
            because=("; ".join(reasons[:3]), "a warm start leaves such rows out"),
            fix="a larger generation.max_completion_length, or a different warm_start.answer",
        )
