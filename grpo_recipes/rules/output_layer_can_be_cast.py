"""TRL can cast the output layer of a tied model.

With cast_lm_head_to_fp32 TRL computes the logits in float32. If output layer and embedding are one matrix
(tie_word_embeddings), it casts the embedding's output back, and expects the embedding at `model.embed_tokens`. An
adapter puts one more `model` before it, and some classes use a different name (GPT-2, GPT-NeoX, OPT): GRPOTrainer
raises AttributeError, after loading the model.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.module_names import module_names
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import has_own_code, model_config, not_at_hand

ID = "GRP009"
CAST, EMBEDDING = "GRPOConfig.cast_lm_head_to_fp32", "model.embed_tokens"


def check(context: Context) -> Iterator[Finding]:
    if context.value(CAST) is not True:
        return
    config = model_config(context)
    if config is None:
        yield not_at_hand(context, "whether cast_lm_head_to_fp32 finds the embedding of the model", CAST)
    if config is None or config.get("tie_word_embeddings") is not True or has_own_code(config):
        return
    names = module_names(config, context.stack.version("transformers"))
    if context.has_section("lora"):
        why = "an adapter moves it one level deeper"
    elif names is not None and EMBEDDING not in names.embedding:
        of_words = [name for name in names.embedding if "pos" not in name and not name.endswith("wpe")]
        why = f"this model has {', '.join(of_words) or 'no embedding'}"
    else:
        return
    message = "cast_lm_head_to_fp32 does not find the embedding that is tied to lm_head"
    because = [f"TRL looks for {EMBEDDING}: {why}", "GRPOTrainer raises AttributeError after loading the model"]
    fix = "remove cast_lm_head_to_fp32" + (", or train all weights" if context.has_section("lora") else "")
    yield context.wrong(message, CAST, because, fix=fix)
