"""vLLM can load the policy that is trained.

Before each generation TRL merges the adapter into the weights and passes them to vLLM by name. This does not work for
every policy. For a quantized model, TRL passes the packed bits without their scales: vLLM fails with AssertionError, or
loads meaningless numbers; for 8 bits TRL raises ValueError in colocate mode, after loading the model. With 4 bits vLLM
can load only the adapter (SHM028). vLLM does not know the names of trainable tokens, and an activated LoRA cannot be
merged.

vLLM holds a tied output layer and embedding as one matrix. If an adapter or a trained copy changes only one of the two,
they differ in the policy, and vLLM silently samples from a different model.
"""

from collections.abc import Iterator
from typing import NamedTuple

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.patterns import ask
from grpo_recipes.rules._shared.adapter_modules import is_all_linear
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import MODEL, model_config
from grpo_recipes.rules.vllm_gets_the_adapter_alone import SYNC, in_the_way

ID = "GEN003"
USE_VLLM = "GRPOConfig.use_vllm"
WIDTHS = ("BitsAndBytesConfig.load_in_4bit", "BitsAndBytesConfig.load_in_8bit")
TARGETS, COPIES = "LoraConfig.target_modules", "LoraConfig.modules_to_save"
TIED = ("model.embed_tokens", "lm_head")
# LoRA options that vLLM cannot load, with the reason.
WITHOUT_A_PLACE = {
    "LoraConfig.trainable_token_indices": "vLLM refuses their tensors, which are named token_adapter",
    "LoraConfig.alora_invocation_tokens": "PEFT raises NotImplementedError when TRL merges the adapter",
}


class Obstacle(NamedTuple):
    """Why vLLM cannot load the policy: the key, the message and the reason."""

    key: str
    what: str
    why: str


def obstacles(context: Context) -> Iterator[Obstacle]:
    """Everything that keeps vLLM from loading the policy."""
    for key in WIDTHS:
        if context.value(key) is True:
            why = "TRL passes vLLM the packed weights without their scales"
            yield Obstacle(key, "vLLM cannot load a quantized policy", why)
    if not context.has_section("lora"):
        return
    for key, why in WITHOUT_A_PLACE.items():
        if context.value(key):
            yield Obstacle(key, f"vLLM cannot load a policy with {key.partition('.')[2]}", why)
    yield from _find_tied_layers(context)


def check(context: Context) -> Iterator[Finding]:
    if context.value(USE_VLLM) is not True:
        return
    for obstacle in obstacles(context):
        because = [obstacle.why, f"use_vllm: {context.origin(USE_VLLM)}"]
        if obstacle.key == WIDTHS[0]:
            if context.value("shims.adapter_sync") is not None:
                continue  # vLLM gets the adapter alone, on the dequantized base
            why_not = [why for _, why in in_the_way(context)] or [f"weight_sync: {context.origin(SYNC)}"]
            because.append(f"vLLM does not get only the adapter: {why_not[0]}")
        yield context.wrong(obstacle.what, obstacle.key, because, False, at=("generation", "use_vllm"))


def _find_tied_layers(context: Context) -> Iterator[Obstacle]:
    pairs = [(key, name) for key in (TARGETS, COPIES) for name in TIED if _names(context.value(key), name)]
    kept_tied = context.value("LoraConfig.ensure_weight_tying") is True
    for key, name in [pair for pair in pairs if pair[0] == TARGETS or not kept_tied][:1]:
        config = model_config(context)
        if config is not None and config.get("tie_word_embeddings") is True:
            layer = name.rpartition(".")[2]
            why = f"{context.text(MODEL)} has one matrix for embeddings and output layer"
            yield Obstacle(key, f"vLLM would ignore that {layer} is trained separately", why)


def _names(modules: object, name: str) -> bool:
    """Whether a list of module names, or a regular expression, names a module, as PEFT matches them."""
    if isinstance(modules, list):
        return any(name == module or name.endswith(f".{module}") for module in modules)
    if not isinstance(modules, str) or is_all_linear(modules):
        return False
    return any(ask((modules,), (name,))[0].finds)
