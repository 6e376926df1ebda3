"""What the modules of a model class are called, read off models without weights; run it to renew the shipped table."""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

# As old as GRPO, with the same names in every release since.
OF_ALL_RELEASES = (
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
    "GemmaForCausalLM",
    "Gemma2ForCausalLM",
    "Gemma3ForCausalLM",
    "Phi3ForCausalLM",
    "PhiForCausalLM",
    "GPT2LMHeadModel",
    "GraniteForCausalLM",
    "Olmo2ForCausalLM",
    "SmolLM3ForCausalLM",
    "StableLmForCausalLM",
    "GlmForCausalLM",
    "Starcoder2ForCausalLM",
    "CohereForCausalLM",
    "Cohere2ForCausalLM",
)
# Mixtures of experts and models of several parts were rebuilt for transformers 5.
SINCE_5 = (
    "Qwen2MoeForCausalLM",
    "Qwen3MoeForCausalLM",
    "MixtralForCausalLM",
    "OlmoeForCausalLM",
    "GptOssForCausalLM",
    "Glm4MoeForCausalLM",
    "Qwen3NextForCausalLM",
    "Qwen3_5ForCausalLM",
    "Qwen3_5ForConditionalGeneration",
    "Ministral3ForCausalLM",
    "Olmo3ForCausalLM",
    "Exaone4ForCausalLM",
    "SeedOssForCausalLM",
    "Glm4ForCausalLM",
)
KINDS = ("linear", "embedding", "other", "parameters")


def modules_of(model_class: str) -> dict[str, Any]:
    """The names of a class by kind, the blocks of its text as "*."; `also`: last parts of further names.

    Those are what PEFT still takes by an older name, and the modules of a part that sees.
    """
    import torch
    import transformers
    from peft.utils import transformers_weight_conversion as conversion

    built_by = getattr(transformers, model_class)
    config = built_by.config_class()
    with torch.device("meta"):
        model = built_by(config)
    layers = next(name for name, module in model.named_modules() if isinstance(module, torch.nn.ModuleList))
    if model_class.endswith("ForConditionalGeneration"):
        layers = "model.language_model.layers"
    kinds: dict[str, set[str]] = defaultdict(set)
    also: set[str] = set()
    for name, module in model.named_modules():
        short = re.sub(rf"^{re.escape(layers)}\.\d+", "*", name)
        if re.search(r"\.\d", short):
            also |= {part for part in short.split(".")[-1:] if not part.isdigit()}
        elif name:
            kinds[_kind(module)].add(short)
    for name, _ in model.named_parameters():
        if name.rpartition(".")[2] not in ("weight", "bias"):
            kinds["parameters"].add(re.sub(rf"^{re.escape(layers)}\.\d+", "*", name))
    kinds["other"] -= {"*", layers}
    base = conversion._MODEL_TO_CONVERSION_PATTERN.get(config.model_type)
    also |= set(conversion._MOE_TARGET_MODULE_MAPPING.get(base, {}))
    return {"layers": layers, **{kind: sorted(kinds[kind]) for kind in KINDS}, "also": sorted(also)}


def _kind(module: Any) -> str:
    import torch
    from transformers.pytorch_utils import Conv1D

    if isinstance(module, torch.nn.Embedding):
        return "embedding"
    adapted = (torch.nn.Linear, Conv1D, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
    return "linear" if isinstance(module, adapted) else "other"


def table() -> dict[str, Any]:
    """The table as it is shipped: classes with the same names share a row."""
    import transformers

    rows: dict[str, dict[str, Any]] = {}
    for window, classes in (("", OF_ALL_RELEASES), (">=5", SINCE_5)):
        for model_class in classes:
            found = modules_of(model_class)
            text = {key: value if isinstance(value, str) else " ".join(value) for key, value in found.items()}
            row = rows.setdefault(json.dumps([window, text]), {"transformers": window, "classes": [], **text})
            row["classes"].append(model_class)
    source = f"transformers {transformers.__version__}: the models, built without weights"
    return {"source": source, "structures": [{key: v for key, v in row.items() if v} for row in rows.values()]}


def main() -> None:
    """Writes the shipped table."""
    from grpo_recipes.facts.released.shipped import DATA

    rows = table()
    text = ",\n".join("  " + json.dumps(row) for row in rows["structures"])
    head = json.dumps(rows["source"])
    Path(DATA / "module_names.json").write_text(f'{{\n "source": {head},\n "structures": [\n{text}\n ]\n}}\n')


if __name__ == "__main__":
    main()
