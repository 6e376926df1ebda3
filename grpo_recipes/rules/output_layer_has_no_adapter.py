"""The output layer gets no adapter.

Since 1.15, TRL computes log-probabilities from the weights of lm_head itself and bypasses an adapter on it; 1.16 raises
ValueError when it builds the trainer, after loading the model. To train the output layer, name it in `modules_to_save`,
which trains a copy of it; if it is tied to the embedding, add `ensure_weight_tying` (LRA013).
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.patterns import ask
from grpo_recipes.rules._shared.adapter_modules import TARGETS, is_all_linear, keeps_ties, vocabulary, words
from grpo_recipes.rules._shared.context import Context

ID = "LRA010"
APPLIES_TO = {"trl": ">=1.15"}
HEAD = "lm_head"


def check(context: Context) -> Iterator[Finding]:
    targets = context.value(TARGETS) if context.has_section("lora") else None
    saved = words(context.value("LoraConfig.modules_to_save"))
    excluded = context.value("LoraConfig.exclude_modules") is not None
    if HEAD in saved or excluded or targets is None or is_all_linear(targets) or not _names_the_head(targets):
        return
    others = [target for target in words(targets) if target != HEAD] if isinstance(targets, list) else []
    fix = others or "all-linear"
    text = f"[{', '.join(others)}]" if others else fix
    tied = ", ensure_weight_tying: true" if vocabulary(context).is_tied and keeps_ties(context) else ""
    message = "an adapter on lm_head would not be trained"
    because = "TRL reads the weights of lm_head itself, and raises ValueError after loading the model"
    yield context.wrong(
        message, TARGETS, because, fix, fix=f"target_modules: {text}, and modules_to_save: [lm_head]{tied} to train it"
    )


def _names_the_head(targets: object) -> bool:
    """Whether target_modules include lm_head, as PEFT matches them: a text has to match the whole name."""
    if isinstance(targets, list):
        return HEAD in words(targets)
    return any(ask((str(targets),), (HEAD,))[0].finds)
