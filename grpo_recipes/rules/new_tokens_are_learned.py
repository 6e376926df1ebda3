"""Added tokens are trained.

New tokens get embeddings drawn around the mean of the others. By default an adapter leaves embeddings and output layer
unchanged, so the new rows keep their random values: the model can neither learn what the tokens mean nor tell them
apart. `modules_to_save` trains the whole embedding and output layer, `trainable_token_indices` only some of their rows.
The embedding alone is not enough (LRA013): the model would never learn when to write a new token.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.adapter_modules import SAVED, TARGETS, both_ends, words
from grpo_recipes.rules._shared.context import Context

ID = "LRA009"
KEY = "tokenizer.add_tokens"
ROWS = "LoraConfig.trainable_token_indices"


def check(context: Context) -> Iterator[Finding]:
    tokens = context.value(KEY)
    if not isinstance(tokens, list) or not tokens or not context.has_section("lora"):
        return
    targets = context.value(TARGETS)
    trained = [*words(context.value(SAVED)), *(words(targets) if isinstance(targets, list) else [])]
    if context.value(ROWS) or any("emb" in name or name.endswith("wte") for name in trained):
        return
    text, patch = both_ends(context)
    message = f"the adapter leaves the embeddings of {', '.join(map(str, tokens))} at random values"
    because = "LoRA freezes the embeddings, and the rows of new tokens start at random values"
    yield context.finding(message, KEY, because, severity="warning", fix=f"lora: {{{text}}}", patch=patch)
