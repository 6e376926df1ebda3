"""The counted sizes are those of the models that transformers and PEFT build."""

import json
import subprocess
from pathlib import Path

import pytest

from grpo_recipes.user_files.model_config import lora_parameter_count, parameter_count, read_model_config

pytestmark = pytest.mark.stack

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 64,
}
CONFIGS: dict[str, dict[str, object]] = {
    "qwen2": {"model_type": "qwen2"},
    "qwen2-tied": {"model_type": "qwen2", "tie_word_embeddings": True},
    "qwen3": {"model_type": "qwen3"},
    "qwen3-bias": {"model_type": "qwen3", "attention_bias": True, "head_dim": 16, "tie_word_embeddings": True},
    "llama": {"model_type": "llama"},
    "llama-bias": {"model_type": "llama", "attention_bias": True, "mlp_bias": True, "head_dim": 12},
    "mistral": {"model_type": "mistral"},
    "gemma3": {"model_type": "gemma3_text", "head_dim": 16},
    "gemma3-bias": {"model_type": "gemma3_text", "attention_bias": True, "tie_word_embeddings": False},
    "phi3": {"model_type": "phi3", "pad_token_id": 0},
    "phi3-part": {"model_type": "phi3", "pad_token_id": 0, "partial_rotary_factor": 0.75, "tie_word_embeddings": True},
    "olmo2": {"model_type": "olmo2"},
    "olmo2-bias": {"model_type": "olmo2", "attention_bias": True, "head_dim": 16},
}
TARGETS: list[str | list[str]] = ["all-linear", ["q_proj", "down_proj"], ["layers.1.self_attn.o_proj"]]

# Builds each model from its config.json, then counts it and its adapters as PEFT makes them trainable.
COUNT = """
import json, sys
from pathlib import Path
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM
counts = {}
for folder in sorted(Path(sys.argv[1]).iterdir()):
    config = AutoConfig.from_pretrained(folder)
    config.save_pretrained(folder / "saved")
    model = AutoModelForCausalLM.from_config(config)
    counts[folder.name] = [sum(p.numel() for p in model.parameters())]
    for target in json.loads(sys.argv[2]):
        model = AutoModelForCausalLM.from_config(config)
        adapted = get_peft_model(model, LoraConfig(r=3, target_modules=target, task_type="CAUSAL_LM"))
        counts[folder.name].append(sum(p.numel() for p in adapted.parameters() if p.requires_grad))
print(json.dumps(counts))
"""


def test_the_counts_are_those_of_the_built_models(tmp_path: Path, warm_python: Path) -> None:
    for name, config in CONFIGS.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({**SIZES, **config}))
    command = [str(warm_python / "python"), "-Xwarm", "-c", COUNT, str(tmp_path), json.dumps(TARGETS)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    built = json.loads(answer.stdout.splitlines()[-1])
    assert set(built) == set(CONFIGS)
    for name, counts in built.items():
        # As it was written, and as transformers saves it, with its own defaults spelled out or left out.
        for folder in (tmp_path / name, tmp_path / name / "saved"):
            saved = read_model_config(str(folder))
            assert saved is not None
            adapters = [lora_parameter_count(saved, 3, target) for target in TARGETS]
            assert [parameter_count(saved), *adapters] == counts, folder
