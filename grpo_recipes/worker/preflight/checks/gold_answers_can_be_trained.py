"""The gold answers of a warm start can be trained, and are whole and paid.

What: the gold answers of the examined rows as they are trained, after their prompts and with the end of the turn.
Reported are answers that are empty, that are longer than max_completion_length or shorter than min_tokens, or in which
generation would stop before their end; answers that open a tag without closing it, if it is a thinking tag, or the
prefill or the template names it; and answers that get no more than a wrong one from a reward that pays the right answer
of the row. If no right answer is known, the sum of all rewards is compared with that of empty answers and garbage.
Steps that train each row more than 20 times are reported, too; published recipes pass over their rows 1 to 15 times.
Why: a warm start leaves out rows that cannot be trained; without any row it ends the run. GRPO begins with a model that
writes what was trained: if no reward pays that, or it never closes its thinking, no completion earns anything. Answers
known by heart leave nothing to learn from these rows.
Fix: a larger max_completion_length, or a different template.
Example: the gold answers of 3 of 32 rows cannot be trained
"""

import math
import re
from collections.abc import Iterator, Mapping

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.worker.data.gold_rows import GoldRow, passes_of, rows_per_step
from grpo_recipes.worker.preflight._shared.reward_seen import GARBAGE, OTHER, TRAINED, best_of_golds, by_row, cut
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight.checks import rewards_teach

ID = "PFL068"
KEY = ("warm_start", "answer")
TAG = re.compile(r"<([A-Za-z_][\w-]*)>")
MOST_PASSES, USUAL_PASSES = 20, 3
_THINKING = ("think", "thinking", "thought", "reason", "reasoning")


def check(inputs: Seen) -> Iterator[Finding]:
    if inputs.data is None or inputs.plan.warm_start is None:
        return
    numbers = [inputs.data.number(index) for index in inputs.sample]
    reasons = [f"row {numbers[row]} {gold}" for row, gold in enumerate(inputs.golds) if isinstance(gold, str)]
    if reasons:
        yield warning(
            f"the gold answers of {len(reasons)} of {len(inputs.golds)} rows cannot be trained",
            KEY,
            because=("; ".join(reasons[:3]), "a warm start leaves such rows out"),
            fix="a larger generation.max_completion_length, or a different warm_start.answer",
        )
    if (passes := passes_of(inputs.plan, inputs.data.total)) > MOST_PASSES:
        yield warning(
            f"the warm start trains each row about {passes:.0f} times",
            ("warm_start", "steps"),
            because=(f"the data has {inputs.data.total} rows, and a step trains {rows_per_step(inputs.plan)}",),
            fix=f"steps: {max(1, int(inputs.plan.warm_start.steps * USUAL_PASSES / passes))}, or more rows",
        )
    yield from _unclosed(inputs, inputs.plan.warm_start.answer, numbers)
    if not any(rewards_teach.check(inputs)):
        yield from _unpaid(inputs, dict(_trained(inputs)), numbers)


def _trained(inputs: Seen) -> Iterator[tuple[int, str]]:
    """Yields the rows of the sample that can be trained, with the texts of their gold completions."""
    texts = inputs.trial_texts.get(TRAINED, ())
    for row, (gold, text) in enumerate(zip(inputs.golds, texts, strict=False)):
        if isinstance(gold, GoldRow):
            yield row, text


def _unclosed(inputs: Seen, template: str, numbers: list[int]) -> Iterator[Finding]:
    rows: dict[str, list[int]] = {}
    for row, text in _trained(inputs):
        prefill = inputs.prefills[row] if inputs.prefills else ""
        named = {*_THINKING, *TAG.findall(prefill), *TAG.findall(template)}
        for tag in {*TAG.findall(prefill + text)} & named:
            if (prefill + text).rfind(f"<{tag}>") > (prefill + text).rfind(f"</{tag}>"):
                rows.setdefault(tag, []).append(numbers[row])
    for tag, own in sorted(rows.items()):
        yield warning(
            f"{len(own)} of {len(inputs.golds)} gold answers open <{tag}> and do not close it",
            KEY,
            because=(f"rows {join_items(own, 5)}", "the model learns to end its turn inside the tag"),
            fix=f"write </{tag}> in warm_start.answer",
        )


def _unpaid(inputs: Seen, texts: Mapping[int, str], numbers: list[int]) -> Iterator[Finding]:
    """Yields rewards that do not pay trained answers; without right answers, the sum of all if it pays none."""
    is_known = bool(inputs.gold)
    judged = {each.name: by_row(each.judged) for each in inputs.rewards if each.judged is not None and each.weight > 0}
    for name, rows in (judged if is_known else _sums(inputs)).items():
        called = [row for row in texts if row in rows]
        unpaid = [row for row in called if _is_unpaid(rows[row], is_known=is_known)]
        if not unpaid or (not is_known and len(unpaid) < len(called)):
            continue
        shown = f"that of row {numbers[unpaid[0]]} is {cut(texts[unpaid[0]], 60)!r}"
        yield warning(
            f"{len(unpaid)} of {len(called)} trained gold answers get no more than wrong ones from {name}",
            KEY,
            because=(
                f"rows {join_items([numbers[row] for row in unpaid], 5)}; {shown}",
                "the warm start teaches the model to write such answers",
            ),
            fix="a template in the form that the rewards read",
        )


def _is_unpaid(values: Mapping[str, float | None], *, is_known: bool) -> bool:
    best = best_of_golds({**values}) if is_known else math.inf
    wrong = {case: value for case in GARBAGE if (value := values.get(case)) is not None}
    is_preferred = all(value < best for case, value in wrong.items() if case != OTHER)
    return is_preferred and (values.get(TRAINED) or 0.0) <= max((v for v in wrong.values() if v < best), default=0.0)


def _sums(inputs: Seen) -> dict[str, dict[int, dict[str, float | None]]]:
    """Returns the weighted sum of all rewards by row and kind of completion; {} if one of them was not called."""
    sums: dict[int, dict[str, float | None]] = {}
    for reward in inputs.rewards:
        if reward.judged is None:
            return {}
        for row, values in by_row(reward.judged).items():
            for case, value in values.items():
                of_row = sums.setdefault(row, {})
                of_row[case] = (of_row.get(case) or 0.0) + reward.weight * (value or 0.0)
    return {"all rewards together": sums}
