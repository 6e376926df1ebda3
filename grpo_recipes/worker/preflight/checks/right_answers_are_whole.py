"""Right answers are not cut off.

What: preflight compares the lengths of all right answers that are texts of several words. Reported: at least half of
them, and at least 8, have the greatest length or one character less, and most of those end with a letter, comma, dash
or bracket, and not half of these with one word; or most end with three dots.
Why: a column of a database or a spreadsheet keeps a fixed number of characters. A model that writes the whole answer is
scored as wrong, or less than one that breaks off in the same place.
Fix: export the data again without a limit of characters.
Example: 150 of 200 right answers are 40 characters long, and none is longer
"""

import re
from collections import Counter
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.worker.preflight._shared.reward_seen import cut
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL063"
FEWEST, SHORTEST, FEWEST_WORDS = 8, 15, 3
DOTS = ("...", "\N{HORIZONTAL ELLIPSIS}")


def check(inputs: Seen) -> Iterator[Finding]:
    data, column = inputs.data, inputs.reference
    if data is None or column is None or not any(column in reward.parameters for reward in inputs.rewards):
        return
    answers = [value.strip() for value in data.rows[column] if isinstance(value, str) and value.strip()]
    texts = [answer for answer in answers if len(re.findall(r"[^\W\d_]{2,}", answer)) >= FEWEST_WORDS]
    if len(texts) < max(FEWEST, len(answers) / 2):
        return
    longest = max(map(len, texts))
    cut_texts = [text for text in texts if len(text) >= longest - 1]
    open_ended = [text for text in cut_texts if text[-1].isalpha() or text[-1] in ",-("]
    ends = Counter(text.split()[-1] for text in open_ended)  # a unit, such as km per hour, is one word
    dotted = [text for text in texts if text.endswith(DOTS)]
    is_cut = longest >= SHORTEST and len(cut_texts) >= max(FEWEST, len(texts) / 2)
    if is_cut and 2 * len(open_ended) > len(cut_texts) and 2 * max(ends.values()) < len(open_ended):
        lengths = " or ".join(map(str, sorted({*map(len, cut_texts)})))
        message = f"{len(cut_texts)} of {len(answers)} right answers are {lengths} characters long, and none is longer"
        yield _fault(column, message, open_ended[0])
    elif len(dotted) >= max(FEWEST, len(texts) / 2):
        yield _fault(column, f"{len(dotted)} of {len(answers)} right answers end with three dots", dotted[0])


def _fault(column: str, message: str, example: str) -> Finding:
    return warning(
        message,
        ("dataset", "columns", column),
        because=(f"one of them ends with {cut(example[-40:], 40)!r}", "a whole answer is then not the right one"),
        fix="export the data again without a limit of characters",
    )
