"""A stop id is a token of the model.

`generation.stop_token_ids` are token numbers, and each model family has its own: the end of a turn is 151645 for Qwen,
128009 for Llama 3. An id at or above the `vocab_size` of config.json is never generated, so no completion ends there
and each continues to max_completion_length. Preflight, which loads the tokenizer, finds ids that only pad the
embeddings.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import MODEL, model_config, not_at_hand

ID = "GEN015"
KEY, TOKENS = "generation.stop_token_ids", "tokenizer.add_tokens"


def check(context: Context) -> Iterator[Finding]:
    ids = context.value(KEY)
    if not isinstance(ids, list) or not ids or context.value(TOKENS):
        return
    config = model_config(context)
    if config is None:
        yield not_at_hand(context, "whether stop_token_ids are tokens of the model", KEY)
        return
    inner = config.get("text_config")
    size = (inner if isinstance(inner, dict) and "vocab_size" in inner else config).get("vocab_size")
    wrong = [token for token in ids if isinstance(size, int) and isinstance(token, int) and token >= size]
    if not wrong:
        return
    rest = [token for token in ids if token not in wrong]
    yield context.wrong(
        f"stop_token_ids has {wrong[0]}, but the model has only {size} tokens",
        KEY,
        f"this is the vocab_size of {context.text(MODEL)}; a token that does not exist ends no completion",
        rest or None,
        severity="warning",
        fix="the token's id in tokenizer.json, or "
        + (f"stop_token_ids: {rest}" if rest else "remove stop_token_ids, and the model's own end token stays"),
        mark=context.source.mark((*context.path(KEY), ids.index(wrong[0]))),
    )
