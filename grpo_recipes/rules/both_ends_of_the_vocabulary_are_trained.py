"""For a tied vocabulary or a new token, both the embedding and the output layer are trained.

`modules_to_save` trains a copy of the modules that it names. If the embedding and the output layer are one matrix, a
copy of one of them unties the two. Measured with PEFT 0.14 to 0.21 and in TRL: `[embed_tokens]` leaves every row of the
output unchanged, so the model never learns when to write a new token, and `[lm_head]` leaves the embedding unchanged.
Since PEFT 0.19, `ensure_weight_tying: true` trains both as one. If they are two matrices, a new token needs both.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.adapter_modules import SAVED, both_ends, vocabulary, words
from grpo_recipes.rules._shared.context import Context

ID = "LRA013"
TYING = "LoraConfig.ensure_weight_tying"


def check(context: Context) -> Iterator[Finding]:
    saved = words(context.value(SAVED)) if context.has_section("lora") else []
    if not saved or context.value(TYING) is True or context.value("LoraConfig.trainable_token_indices"):
        return
    ends = vocabulary(context)
    trained = [name for name in (ends.embedding, ends.output) if any(name.endswith(entry) for entry in saved)]
    is_new = bool(context.value("tokenizer.add_tokens")) and trained == [ends.embedding]
    if len(trained) != 1 or not (ends.is_tied or is_new):
        return
    left = ends.output if trained == [ends.embedding] else ends.embedding
    text, patch = both_ends(context)
    why = f"{left} keeps the old matrix" if ends.is_tied else f"the new rows of {left} stay random"
    message = f"{trained[0]} is trained, but {left} is not"
    because = f"modules_to_save trains a copy: {why}"
    yield context.finding(message, SAVED, because, severity="warning", fix=text, patch=patch)
