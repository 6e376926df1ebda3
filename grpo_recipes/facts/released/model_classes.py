"""The model classes whose forward is read, and the module of transformers.models that each is defined in."""

from collections.abc import Mapping

from grpo_recipes.facts.source.package_folder import package_folder

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
