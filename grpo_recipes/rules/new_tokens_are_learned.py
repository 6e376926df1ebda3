"""Tokens that are added to the model are learned.

New tokens get embeddings drawn around the mean of the others. An adapter leaves embeddings and output layer as they
are, unless it is told otherwise, so that the new rows stay what was drawn: the model can neither learn what the tokens
mean nor tell them apart. `modules_to_save` trains the whole embedding, `trainable_token_indices` some of its rows.
"""

from collections.abc import Iterator

from grpo_recipes.finding import Finding, Patch
from grpo_recipes.rules.adapter_modules import TARGETS, adapted_model, words
from grpo_recipes.rules.context import Context

ID = "LRA009"
KEY = "tokenizer.add_tokens"
SAVED, ROWS = "LoraConfig.modules_to_save", "LoraConfig.trainable_token_indices"


def check(context: Context) -> Iterator[Finding]:
    tokens = context.value(KEY)
    if not isinstance(tokens, list) or not tokens or not context.has_section("lora"):
        return
    model = adapted_model(context)
    known = ["embed_tokens"] if model is None else [name.rpartition(".")[2] for name in model[1].embedding]
    embedding = next(name for name in known if "pos" not in name and name != "wpe")
    targets = context.value(TARGETS)
    trained = [*words(context.value(SAVED)), *(words(targets) if isinstance(targets, list) else [])]
    if context.value(ROWS) or any("emb" in name or name.endswith("wte") for name in trained):
        return
    names = [*words(context.value(SAVED)), embedding]
    yield context.finding(
        ID,
        f"the adapter leaves the embeddings of {', '.join(map(str, tokens))} as they are drawn",
        KEY,
        because=["LoRA freezes everything that it does not name, and the new rows are random"],
        severity="warning",
        fix=f"lora: {{modules_to_save: [{', '.join(names)}]}}",
        patch=[Patch(("lora", "modules_to_save"), names)],
    )
