"""Each of stop_token_ids is a token.

What: ids at or above the size of the vocabulary, and ids that only pad the model's embeddings.
Why: no such token is ever generated, so no completion ends there.
Fix: use the id that tokenizer.convert_tokens_to_ids gives for the token.
Example: stop_token_ids has 151999, and the tokenizer has 151669 tokens
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch, mistake
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL014"


def check(inputs: Seen) -> Iterator[Finding]:
    if inputs.tokenizer is None or inputs.ends is None:
        return
    size = len(inputs.tokenizer)
    given = inputs.ends.stop_token_ids
    for index, token in enumerate(given):
        if token >= size:
            yield mistake(
                f"stop_token_ids has {token}, and the tokenizer has {size} tokens",
                ("generation", "stop_token_ids", index),
                because="a token that does not exist never ends a completion",
                fix=f"an id below {size}",
                patch=(Patch(("generation", "stop_token_ids"), [other for other in given if other < size]),),
            )
