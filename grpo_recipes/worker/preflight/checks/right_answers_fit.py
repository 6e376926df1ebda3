"""Right answers fit into a completion.

What: the tokens of the right answers of the examined rows, compared with max_completion_length. It warns if most of
them are longer. An answer is the text of the column that rewards compare with.
Why: a completion that is cut off before its answer ends is never right, so the reward never rises.
Fix: a larger max_completion_length. No change is needed if the column has whole solutions and the reward reads only
their result.
Example: the right answers of 32 of 32 rows are longer than a completion of 5 tokens
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.worker.preflight._shared.reward_seen import GOLD
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight.checks.prompts_fit import max_completion_length

ID = "PFL046"


def check(inputs: Seen) -> Iterator[Finding]:
    texts, most = [text for text in inputs.trial_texts.get(GOLD, []) if text], max_completion_length(inputs)
    if inputs.tokenizer is None or not texts or not most:
        return
    lengths = [len(ids) for ids in inputs.tokenizer(texts, add_special_tokens=False)["input_ids"]]
    longer = sum(length > most for length in lengths)
    if 2 * longer > len(lengths):
        yield warning(
            f"the right answers of {longer} of {len(lengths)} rows are longer than a completion of {most} tokens",
            ("generation", "max_completion_length"),
            because=(
                f"they have {min(lengths)} to {max(lengths)} tokens ({inputs.gold}); a completion that is"
                " cut off before that is never right"
            ),
            fix=f"max_completion_length: {max(lengths) + 1}, or more if the model should think before it answers",
        )
