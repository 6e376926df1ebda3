"""Each of stop_token_ids is a token, and the model has every token of the prompts.

What: ids at or above the size of the vocabulary, and ids that only pad the model's embeddings; and tokens of rendered
prompts with ids that the model's embeddings lack.
Why: no such token is ever generated, so no completion ends there; and the first step fails with an index error.
Fix: use the id that tokenizer.convert_tokens_to_ids gives for the token; a tokenizer of this model.
Example: stop_token_ids has 151999, and the tokenizer has 151669 tokens
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch, mistake
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL014"


def check(inputs: Seen) -> Iterator[Finding]:
    if inputs.tokenizer is None or inputs.ends is None:
        return
    yield from _unknown_to_the_model(inputs)
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


def _unknown_to_the_model(inputs: Seen) -> Iterator[Finding]:
    """Yields tokens of prompts beyond the embeddings, which grow for added tokens alone."""
    if inputs.config is None or inputs.plan.tokenizer.add_tokens:
        return
    rows = getattr(inputs.config.get_text_config(), "vocab_size", None)
    ids = {token for text in inputs.texts for token in inputs.tokenizer(text, add_special_tokens=False)["input_ids"]}
    beyond = sorted(token for token in ids if isinstance(rows, int) and token >= rows)
    if beyond:
        names = [repr(name) for name in inputs.tokenizer.convert_ids_to_tokens(beyond[:5])]
        yield mistake(
            f"the prompts have tokens that the model has no embedding for: {join_items(names, 5)}",
            ("model", "model_name_or_path"),
            because=f"config.json has a vocab_size of {rows}, and their ids are {join_items(beyond, 5)}",
            fix="the tokenizer and the chat template that this model was trained with",
        )
