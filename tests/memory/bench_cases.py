"""Updates for benchmarks/memory.py that no formula was made with: shapes of known models, drawn at random."""

import random
from dataclasses import dataclass
from typing import Any

from traces import traced

from grpo_recipes.user_files.model_config import parameter_count, read_model_config

SEED = 16
MODELS = {
    "Qwen/Qwen2.5-0.5B": 4,
    "Qwen/Qwen2.5-1.5B": 3,
    "Qwen/Qwen2.5-7B": 2,
    "Qwen/Qwen3-0.6B": 4,
    "Qwen/Qwen3-4B": 2,
    "meta-llama/Llama-3.2-1B": 3,
    "meta-llama/Llama-3.1-8B": 2,
    "mistralai/Mistral-7B-v0.1": 2,
    "HuggingFaceTB/SmolLM2-135M": 6,
    "Qwen/Qwen3-30B-A3B": 2,
    "google/gemma-3-1b-it": 6,
    "microsoft/phi-4": 2,
    "microsoft/Phi-4-mini-instruct": 2,
    "allenai/OLMo-2-0425-1B": 3,
}
LENGTHS = ((64, 192), (200, 824), (512, 1536), (1024, 3072))
MODES: tuple[dict[str, Any], ...] = (
    {"dtype": "bfloat16"},
    {"dtype": "float32", "autocast": "bfloat16"},
    {"dtype": "float32"},
    {"dtype": "bfloat16", "lora": 16},
    {"dtype": "bfloat16", "autocast": "bfloat16", "lora": 8},
    {"dtype": "float32", "autocast": "bfloat16", "lora": 32},
    {"dtype": "bfloat16", "autocast": "bfloat16", "lora": 16, "quantization": "nf4"},
)
TARGETS = ("all-linear", ["q_proj", "k_proj", "v_proj", "o_proj"])
MOST_TOKENS = 16_384


@dataclass(frozen=True, slots=True)
class Case:
    """One update: the model whose shapes it has, how many of its layers, and what is traced."""

    model: str
    asked: dict[str, Any]

    def words(self) -> str:
        """The update in a line of a table."""
        asked = self.asked
        kind = "nf4" if asked["quantization"] else asked["dtype"]
        kind += "" if asked["autocast"] is None else " autocast"
        kind += "" if asked["lora"] is None else f" LoRA {asked['lora']['r']}"
        kind += " checkpointing" if asked["checkpointing"] else ""
        kind += " eager" if asked["attention"] == "eager" else ""
        layers = asked["config"]["num_hidden_layers"]
        size = f"{asked['batch']} x ({asked['prompt']} + {asked['completion']}), {asked['accumulation']} in a step"
        return f"{self.model}, {layers} layers | {kind} | {size}"


def cases(rounds: int = 7) -> list[Case]:
    """Every model in every way of training, with the rest drawn at random.

    More than two micro-batches in a step hold what two do.
    """
    draw = random.Random(SEED)
    return [
        _case(draw, model, layers, MODES[(number + place) % len(MODES)])
        for place, (model, layers) in enumerate(MODELS.items())
        for number in range(rounds)
    ]


def _case(draw: random.Random, model: str, layers: int, mode: dict[str, Any]) -> Case:
    config = read_model_config(model)
    assert config is not None, model
    if model.endswith("A3B") and mode["dtype"] == "float32":
        mode = {**mode, "dtype": "bfloat16"}  # torch has a fake form of its product of experts for bfloat16 alone
    prompt, completion = draw.choice(LENGTHS)
    batch = draw.choice([size for size in (1, 2, 4, 8, 16) if size * (prompt + completion) <= MOST_TOKENS])
    rest = {key: value for key, value in mode.items() if key != "lora"}
    asked = traced(
        **rest,
        lora={"r": mode["lora"], "targets": draw.choice(TARGETS)} if "lora" in mode else None,
        checkpointing=draw.random() < 0.5,
        attention="eager" if prompt + completion <= 1024 and draw.random() < 0.3 else "sdpa",
        batch=batch,
        prompt=prompt,
        completion=completion,
        accumulation=draw.choice((1, 2)),
        optimizer=draw.choice(("adamw_torch_fused", "adamw_torch_fused", "adamw_torch")),
    )
    names = {"architectures", "max_position_embeddings"}
    kept = {key: value for key, value in config.items() if key not in names}
    return Case(model, {**asked, "config": {**kept, "num_hidden_layers": layers, "max_position_embeddings": 32_768}})


_CPU = {
    "model_type": "qwen2",
    "hidden_size": 256,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 8000,
    "tie_word_embeddings": True,
    "max_position_embeddings": 2048,
}
_BOTH = {"device": "cpu", "batch": 8, "prompt": 192, "completion": 32}
_LORA = {"r": 16, "targets": "all-linear"}
CPU_RUNS = (
    Case("4 x 256", traced(_CPU, dtype="float32", **_BOTH)),
    Case("4 x 256", traced(_CPU, dtype="float32", checkpointing=True, **_BOTH)),
    Case("4 x 256", traced(_CPU, dtype="float32", lora=_LORA, **_BOTH)),
    Case("8 x 512", traced(_CPU | {"hidden_size": 512, "num_hidden_layers": 8}, dtype="float32", **_BOTH)),
    Case("4 x 256, 40,000 words", traced(_CPU | {"vocab_size": 40_000}, dtype="float32", checkpointing=True, **_BOTH)),
    Case("4 x 256", traced(_CPU, dtype="float32", autocast="bfloat16", **_BOTH)),
)


_LIMITED_SEED = 2016


def limited_cases(count: int = 20) -> list[Case]:
    """Trainings on the CPU drawn at random: 5 to 40 million parameters, two steps of some seconds."""
    draw, found = random.Random(_LIMITED_SEED), []
    while len(found) < count:
        hidden = draw.choice((256, 384, 512))
        config = {
            **_CPU,
            "hidden_size": hidden,
            "intermediate_size": hidden * draw.choice((2, 3, 4)),
            "num_hidden_layers": draw.choice((2, 4, 6, 8)),
            "num_key_value_heads": draw.choice((2, 8)),
            "vocab_size": draw.choice((4_000, 16_000, 40_000)),
            "tie_word_embeddings": draw.random() < 0.7,
        }
        asked = traced(
            config,
            dtype="float32",
            autocast="bfloat16" if draw.random() < 0.2 else None,
            lora={"r": draw.choice((8, 32)), "targets": draw.choice(TARGETS)} if draw.random() < 0.3 else None,
            checkpointing=draw.random() < 0.4,
            device="cpu",
            batch=draw.choice((2, 4, 8)),
            prompt=draw.choice((64, 128, 192)),
            completion=draw.choice((8, 16, 32)),
            accumulation=draw.choice((1, 2)),
            optimizer=draw.choice(("adamw_torch_fused", "adamw_torch")),
        )
        parameters = parameter_count(config)
        if parameters is not None and 5e6 <= parameters <= 40e6:
            found.append(Case(f"{parameters / 1e6:.0f} million", asked))
    return found
