"""Which logits keyword a model class takes in a release of transformers."""

from collections.abc import Mapping
from typing import Any

from grpo_recipes.facts.released.folded import nearest_release, value_at
from grpo_recipes.facts.released.shipped import table
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.facts.source.logits_keyword import LogitsKeyword
from grpo_recipes.facts.source.package_folder import package_folder

TABLE = "logits_keyword"
PASSED_TABLE = "passed_logits_keyword"


def shipped_logits_keyword(version: str, model_class: str) -> LogitsKeyword | None:
    """What forward takes in this release, None for a class or a release that was not read or lacks the class."""
    data = table(TABLE)
    spans, releases = data["classes"].get(model_class), data["releases"]
    release = nearest_release(releases, version)
    if spans is None or release is None:
        return None
    return keyword_of(value_at(spans, release, {name: place for place, name in enumerate(releases)}))


def installed_logits_keyword(model_class: str) -> LogitsKeyword | None:
    """What forward takes in the transformers that is installed here, None where the class is not found."""
    from grpo_recipes.facts.source.package_source import PackageSource
    from grpo_recipes.facts.source.read_logits import read_logits_keyword

    module, folder = model_module(model_class), package_folder("transformers")
    if module is None or folder is None:
        return None
    return read_logits_keyword(PackageSource("transformers", folder), module, model_class)


def releases_with_class(model_class: str) -> tuple[str, str] | None:
    """The first and the last release of transformers that was read and has the class; None for an unknown one."""
    spans = table(TABLE)["classes"].get(model_class)
    return (str(spans[0][0]), str(spans[-1][1])) if spans else None


def passed_logits_keyword(trl: str) -> str | None:
    """The keyword by which GRPOTrainer of this TRL asks for the last logits, None where it asks for none."""
    return next((row["keyword"] for row in table(PASSED_TABLE)["passed"] if is_within(trl, row["trl"])), None)


def to_json_value(keyword: LogitsKeyword) -> dict[str, object]:
    """One span's value in the table; what is false is left out."""
    value: dict[str, object] = {"name": keyword.name}
    return (
        value | ({"translated": True} if keyword.translated else {}) | ({"swallows": True} if keyword.swallows else {})
    )


def keyword_of(value: Mapping[str, Any] | None) -> LogitsKeyword | None:
    """What `to_json_value` wrote, None for None."""
    if value is None:
        return None
    return LogitsKeyword(value["name"], value.get("translated", False), value.get("swallows", False))


# The model classes whose forward is read, and the module of transformers.models that each is defined in.


_MODELS: Mapping[str, tuple[str, ...]] = {
    "afmoe": ("AfmoeForCausalLM",),
    "apertus": ("ApertusForCausalLM",),
    "arcee": ("ArceeForCausalLM",),
    "aria": ("AriaForConditionalGeneration",),
    "aya_vision": ("AyaVisionForConditionalGeneration",),
    "bamba": ("BambaForCausalLM",),
    "bitnet": ("BitNetForCausalLM",),
    "bloom": ("BloomForCausalLM",),
    "cohere": ("CohereForCausalLM",),
    "cohere2": ("Cohere2ForCausalLM",),
    "dbrx": ("DbrxForCausalLM",),
    "deepseek_v2": ("DeepseekV2ForCausalLM",),
    "deepseek_v3": ("DeepseekV3ForCausalLM",),
    "dots1": ("Dots1ForCausalLM",),
    "ernie4_5": ("Ernie4_5ForCausalLM",),
    "exaone4": ("Exaone4ForCausalLM",),
    "falcon": ("FalconForCausalLM",),
    "falcon_h1": ("FalconH1ForCausalLM",),
    "falcon_mamba": ("FalconMambaForCausalLM",),
    "gemma": ("GemmaForCausalLM",),
    "gemma2": ("Gemma2ForCausalLM",),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"),
    "gemma3n": ("Gemma3nForCausalLM", "Gemma3nForConditionalGeneration"),
    "gemma4": ("Gemma4ForCausalLM", "Gemma4ForConditionalGeneration"),
    "glm": ("GlmForCausalLM",),
    "glm4": ("Glm4ForCausalLM",),
    "glm4_moe": ("Glm4MoeForCausalLM",),
    "glm4v": ("Glm4vForConditionalGeneration",),
    "gpt2": ("GPT2LMHeadModel",),
    "gpt_bigcode": ("GPTBigCodeForCausalLM",),
    "gpt_neo": ("GPTNeoForCausalLM",),
    "gpt_neox": ("GPTNeoXForCausalLM",),
    "gpt_oss": ("GptOssForCausalLM",),
    "gptj": ("GPTJForCausalLM",),
    "granite": ("GraniteForCausalLM",),
    "granitemoe": ("GraniteMoeForCausalLM",),
    "granitemoehybrid": ("GraniteMoeHybridForCausalLM",),
    "helium": ("HeliumForCausalLM",),
    "hunyuan_v1_dense": ("HunYuanDenseV1ForCausalLM",),
    "idefics2": ("Idefics2ForConditionalGeneration",),
    "idefics3": ("Idefics3ForConditionalGeneration",),
    "internvl": ("InternVLForConditionalGeneration",),
    "jamba": ("JambaForCausalLM",),
    "lfm2": ("Lfm2ForCausalLM",),
    "llama": ("LlamaForCausalLM",),
    "llama4": ("Llama4ForCausalLM", "Llama4ForConditionalGeneration"),
    "llava": ("LlavaForConditionalGeneration",),
    "llava_next": ("LlavaNextForConditionalGeneration",),
    "llava_onevision": ("LlavaOnevisionForConditionalGeneration",),
    "mamba": ("MambaForCausalLM",),
    "mamba2": ("Mamba2ForCausalLM",),
    "minimax": ("MiniMaxForCausalLM",),
    "ministral": ("MinistralForCausalLM",),
    "ministral3": ("Ministral3ForCausalLM",),
    "mistral": ("MistralForCausalLM",),
    "mistral3": ("Mistral3ForConditionalGeneration",),
    "mixtral": ("MixtralForCausalLM",),
    "mllama": ("MllamaForCausalLM", "MllamaForConditionalGeneration"),
    "mpt": ("MptForCausalLM",),
    "nemotron": ("NemotronForCausalLM",),
    "olmo": ("OlmoForCausalLM",),
    "olmo2": ("Olmo2ForCausalLM",),
    "olmo3": ("Olmo3ForCausalLM",),
    "olmoe": ("OlmoeForCausalLM",),
    "opt": ("OPTForCausalLM",),
    "paligemma": ("PaliGemmaForConditionalGeneration",),
    "persimmon": ("PersimmonForCausalLM",),
    "phi": ("PhiForCausalLM",),
    "phi3": ("Phi3ForCausalLM",),
    "phi4_multimodal": ("Phi4MultimodalForCausalLM",),
    "phimoe": ("PhimoeForCausalLM",),
    "qwen2": ("Qwen2ForCausalLM",),
    "qwen2_5_vl": ("Qwen2_5_VLForConditionalGeneration",),
    "qwen2_moe": ("Qwen2MoeForCausalLM",),
    "qwen2_vl": ("Qwen2VLForConditionalGeneration",),
    "qwen3": ("Qwen3ForCausalLM",),
    "qwen3_5": ("Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"),
    "qwen3_moe": ("Qwen3MoeForCausalLM",),
    "qwen3_next": ("Qwen3NextForCausalLM",),
    "qwen3_vl": ("Qwen3VLForConditionalGeneration",),
    "recurrent_gemma": ("RecurrentGemmaForCausalLM",),
    "rwkv": ("RwkvForCausalLM",),
    "seed_oss": ("SeedOssForCausalLM",),
    "smollm3": ("SmolLM3ForCausalLM",),
    "smolvlm": ("SmolVLMForConditionalGeneration",),
    "stablelm": ("StableLmForCausalLM",),
    "starcoder2": ("Starcoder2ForCausalLM",),
    "xglm": ("XGLMForCausalLM",),
    "zamba2": ("Zamba2ForCausalLM",),
}


def model_module(model_class: str) -> str | None:
    """`transformers.models.qwen2.modeling_qwen2` for Qwen2ForCausalLM, None for a class that is not listed."""
    return MODEL_CLASSES.get(model_class)


def is_known_type(config: Mapping[str, object]) -> bool:
    """Whether the model_type of a config.json, or its first class, is one of those listed."""
    architectures = config.get("architectures")
    name = architectures[0] if isinstance(architectures, list) and architectures else None
    return str(config.get("model_type")).removesuffix("_text") in _MODELS or name in MODEL_CLASSES


MODEL_CLASSES: Mapping[str, str] = {
    name: f"transformers.models.{model}.modeling_{model}" for model, names in _MODELS.items() for name in names
}


def has_installed_class(model_type: str) -> bool | None:
    """Whether the transformers installed here has a class for a model_type; None when its list cannot be read."""
    folder = package_folder("transformers")
    try:
        files = list((folder / "models" / "auto").glob("*auto*.py")) if folder is not None else []
        texts = [file.read_text(encoding="utf-8") for file in files]
    except OSError:
        return None
    known = any("CONFIG_MAPPING_NAMES" in text for text in texts)
    return any(f'"{model_type}"' in text for text in texts) if known else None
