"""The model that a recipe names, its configuration and how it is loaded, for rules."""

from collections.abc import Mapping

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.released.shipped import table
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.user_files.local_files import local_path
from grpo_recipes.user_files.model_config import read_model_config, read_processor
from grpo_recipes.yaml.compose import Source, once_for_a_source

MODEL = "model.model_name_or_path"
TOWERS = r"(.*\.)?(vision_tower|vision_model|visual|vision_encoder|vision_embed_tokens)\..*"
"""The vision parts of models in transformers 4.46 to 5.23; a projector behind them is adapted."""
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "router_aux_loss_coef")
"""Keys in the config.json of a mixture of experts."""
# Source: transformers, models/*/configuration_*.py; the others belong to classes next to the weights.
_PARTS_THAT_SEE = ("vision_config", "vit_config", "vision_tower", "mm_vision_tower", "visual", "img_processor")
_CAUSAL_THAT_SEES = ("Phi4MultimodalForCausalLM", "Phi3VForCausalLM", "Phi4MMForCausalLM", "LlavaLlamaForCausalLM")


def model_config(context: Context) -> Mapping[str, object] | None:
    """The config.json of the model, from its folder, the local hub cache or the shipped table; None if unknown."""
    revision = context.value("model_init_kwargs.revision")
    return _config(context.source, context.text(MODEL), None if revision is None else str(revision))


def processor_config(context: Context) -> Mapping[str, object]:
    """The settings of the model's processor for images, next to its config.json; {} if unknown."""
    revision = context.value("model_init_kwargs.revision")
    path = local_path(context.text(MODEL), context.source.directory(("model", "model_name_or_path")))
    return read_processor(path or context.text(MODEL), None if revision is None else str(revision))


@once_for_a_source
def _config(source: Source, model: str, revision: str | None) -> Mapping[str, object] | None:
    path = local_path(model, source.directory(("model", "model_name_or_path")))
    return read_model_config(path or model, revision)


def not_at_hand(context: Context, what: str, key: str, file: str = "config.json") -> Finding:
    """The finding for a check that needs files of the model that are missing here."""
    name = context.text(MODEL)
    return context.finding(
        f"not checked: {what}",
        key,
        because=[f"grpo-run finds {file} of {name} neither in a folder nor in the local hub cache"],
        fix=f"hf download {name} {file}" if "/" in name else None,
        severity="not-checked",
    )


def is_quantized(context: Context) -> bool:
    """Whether the model is loaded in 4 or 8 bits."""
    return bool(context.value("BitsAndBytesConfig.load_in_4bit") or context.value("BitsAndBytesConfig.load_in_8bit"))


def adapter_dtype(context: Context) -> str | None:
    """The dtype of the LoRA tensors before the first step, None without an adapter or if unknown.

    TRL casts the adapter of a quantized model to bfloat16. PEFT keeps others in float32, also on half-precision
    weights; under ZeRO-3 newer releases of TRL ask for the dtype of the weights, and older ones do not.
    Source: trl 0.29.1 and 1.16.0 grpo_trainer.py, peft's tuners_utils.py cast_adapter_dtype.
    """
    strategy = context.value("distributed.strategy")
    if not context.has_section("lora") or strategy == "fsdp2":
        return None
    if is_quantized(context):
        return "bfloat16"
    weights = context.value("model_init_kwargs.dtype")
    known = ("float32",) if strategy == "zero3" else ("float32", "bfloat16", "float16")
    return "float32" if weights in known else None


def sees(config: Mapping[str, object]) -> bool:
    """Whether the class that config.json names reads images: it is not a text class, and has a vision part.

    A text checkpoint that was cut out of a larger one may keep the configuration of the vision part.
    """
    architectures = config.get("architectures")
    name = str(architectures[0]) if isinstance(architectures, list) and architectures else ""
    of_text = name.endswith(("ForCausalLM", "LMHeadModel")) and name not in _CAUSAL_THAT_SEES
    return bool(name) and not of_text and any(config.get(key) is not None for key in _PARTS_THAT_SEE)


def text_model(config: Mapping[str, object]) -> str | None:
    """A text model of the same family as a vision model, None if none is known."""
    family: str | None = table("vision_models")["of_text"].get(str(config.get("model_type")))
    return family


def has_own_code(config: Mapping[str, object]) -> bool:
    """Whether the code of the model's class is next to its weights."""
    return "auto_map" in config


_TASKS = {
    "generates": ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "DoubleHeadsModel"),
    "classifies": ("Classification", "ForMultipleChoice", "ForNextSentencePrediction"),
    "fills in masked words": ("ForMaskedLM",),
    "answers with parts of a text": ("ForQuestionAnswering",),
    "has no output layer": ("Model",),
}
"""What a model does by the end of its class name. Source: transformers, models/auto/modeling_auto.py."""


def task_of(config: Mapping[str, object]) -> str | None:
    """What the class that config.json names does, in words that follow the model's name; None if unknown."""
    architectures = config.get("architectures")
    name = str(architectures[0]) if isinstance(architectures, list) and architectures else ""
    return next((task for task, ends in _TASKS.items() if name.endswith(ends)), None)
