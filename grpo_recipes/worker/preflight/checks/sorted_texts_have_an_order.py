"""dataset.sort_by sorts texts in the order that they mean.

What: a column of texts whose order by letters differs from its meaning: numbers ("10" comes before "9", "level 10"
before "level 2") and words such as easy, medium and hard.
Why: a curriculum by letters trains easy, hard, medium, and nothing in the figures shows it.
Fix: numbers in the data, or a column under dataset.columns whose texts sort as they mean: 1 easy, 2 medium, 3 hard.
Example: dataset.sort_by sorts difficulty by letters: easy, hard, medium
"""

import re
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.worker.preflight._shared.reward_seen import cut
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL058"
SCALES = (
    ("trivial", "very easy", "easy", "simple", "medium", "moderate", "normal", "hard", "difficult", "very hard"),
    ("beginner", "elementary", "intermediate", "advanced", "expert"),
    ("very low", "low", "medium", "mid", "high", "very high"),
    ("tiny", "small", "medium", "large", "huge"),
    ("short", "medium", "long"),
    *[("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")],
)


def check(inputs: Seen) -> Iterator[Finding]:
    name = (inputs.plan.data.sort_by or "").removeprefix("-")
    if inputs.data is None or name not in inputs.data.rows.column_names:
        return
    texts = sorted({value for value in inputs.data.rows[name] if isinstance(value, str)})
    lowered = [" ".join(re.split(r"[\s_-]+", text.strip().lower())) for text in texts]
    scale = next((scale for scale in SCALES if len(texts) > 1 and {*lowered} <= {*scale}), None)
    meant = [_number_key(text) for text in texts] if scale is None else [(scale.index(word), "") for word in lowered]
    if len({shape for _, shape in meant}) == 1 and meant != sorted(meant):
        yield warning(
            f"dataset.sort_by sorts {name} by letters: {cut(', '.join(texts[:8]), 80)}",
            ("dataset", "sort_by"),
            because="the column has texts",
            fix=f"use numbers in {name}, or texts whose order is their meaning: 1 easy, 2 medium, 3 hard",
        )


def _number_key(text: str) -> tuple[float, str]:
    """Returns the first number in a text, and the text around it, which is equal in texts that differ only by it."""
    number = re.search(r"-?\d+(\.\d+)?", text)
    return (0.0, text) if number is None else (float(number[0]), text.replace(number[0], "", 1))
