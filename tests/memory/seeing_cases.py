"""Updates of vision models, as JSON for seeing_updates.py, and as inputs of the formulas."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from traces import traced, update_of

from grpo_recipes.memory.layout import cache_bytes
from grpo_recipes.memory.moments import generation_bytes, moments
from grpo_recipes.memory.update import Update
from grpo_recipes.user_files.architecture import Vision
from grpo_recipes.user_files.vision_model import read_vision_model

ROOT = Path(__file__).parents[2]
_TEXT = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
_TEXT |= {"num_key_value_heads": 2, "vocab_size": 32768, "max_position_embeddings": 8192, "pad_token_id": 0}
_TOWER = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 4}
_ROPE = {"rope_type": "default", "mrope_section": [4, 6, 6], "rope_theta": 10_000.0}
CONFIGS: dict[str, dict[str, Any]] = {
    "idefics3": {
        "model_type": "idefics3",
        "text_config": {"model_type": "llama", **_TEXT},
        "vision_config": {"model_type": "idefics3_vision", **_TOWER, "image_size": 112, "patch_size": 14},
        "scale_factor": 2,
        "image_token_id": 5,
        "tie_word_embeddings": False,
    },
    "llava_next": {
        "model_type": "llava_next",
        "text_config": {"model_type": "llama", **_TEXT},
        "vision_config": {"model_type": "clip_vision_model", **_TOWER, "image_size": 112, "patch_size": 14},
        "image_grid_pinpoints": [[224, 224]],
        "image_token_index": 5,
        "tie_word_embeddings": False,
    },
    "gemma3": {
        "model_type": "gemma3",
        "text_config": {"model_type": "gemma3_text", **_TEXT, "head_dim": 32, "sliding_window": 64},
        "vision_config": {
            "model_type": "siglip_vision_model",
            **_TOWER,
            "image_size": 224,
            "patch_size": 14,
            "vision_use_head": False,
        },
        "mm_tokens_per_image": 64,
        "image_token_index": 5,
    },
    "qwen2_5_vl": {
        "model_type": "qwen2_5_vl",
        "text_config": {"model_type": "qwen2_5_vl_text", **_TEXT, "rope_parameters": _ROPE},
        "vision_config": {
            "depth": 4,
            "hidden_size": 256,
            "out_hidden_size": 128,
            "num_heads": 4,
            "intermediate_size": 1024,
            "patch_size": 14,
            "window_size": 112,
            "fullatt_block_indexes": [1, 3],
        },
        "image_token_id": 5,
        "video_token_id": 6,
        "vision_start_token_id": 8,
        "tie_word_embeddings": False,
    },
}


_SIGLIP = {"hidden_size": 1152, "intermediate_size": 4304, "num_attention_heads": 16, "num_hidden_layers": 27}
_CLIP = {"hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 24}
_CLIP |= {"model_type": "clip_vision_model", "image_size": 336, "patch_size": 14, "projection_dim": 768}
PUBLISHED: dict[str, dict[str, Any]] = {
    "idefics3": {
        "model_type": "idefics3",
        "text_config": {
            "model_type": "llama",
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_key_value_heads": 8,
            "vocab_size": 128259,
        },
        "vision_config": {"model_type": "idefics3", **_SIGLIP, "image_size": 364, "patch_size": 14},
        "scale_factor": 2,
        "tie_word_embeddings": False,
    },
    "smolvlm": {
        "model_type": "smolvlm",
        "text_config": {
            "model_type": "llama",
            "hidden_size": 576,
            "intermediate_size": 1536,
            "num_hidden_layers": 30,
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
            "vocab_size": 49280,
            "head_dim": 64,
        },
        "vision_config": {
            "model_type": "smolvlm_vision",
            "hidden_size": 768,
            "image_size": 512,
            "num_attention_heads": 12,
            "patch_size": 16,
        },
        "scale_factor": 4,
    },
    "gemma3": {
        "model_type": "gemma3",
        "text_config": {
            "model_type": "gemma3_text",
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "num_hidden_layers": 34,
            "sliding_window": 1024,
        },
        "vision_config": {
            "model_type": "siglip_vision_model",
            **_SIGLIP,
            "image_size": 896,
            "patch_size": 14,
            "vision_use_head": False,
        },
        "mm_tokens_per_image": 256,
    },
    "llava_next": {
        "model_type": "llava_next",
        "text_config": {
            "model_type": "mistral",
            "intermediate_size": 14336,
            "num_key_value_heads": 8,
            "vocab_size": 32064,
        },
        "vision_config": _CLIP,
        "image_grid_pinpoints": [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]],
        "tie_word_embeddings": False,
    },
    "llava": {
        "model_type": "llava",
        "text_config": {"model_type": "llama", "vocab_size": 32064},
        "vision_config": _CLIP,
    },
    "qwen2_5_vl": {
        "model_type": "qwen2_5_vl",
        "hidden_size": 2048,
        "intermediate_size": 11008,
        "num_hidden_layers": 36,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
        "vision_config": {
            "depth": 32,
            "hidden_act": "silu",
            "hidden_size": 1280,
            "intermediate_size": 3420,
            "num_heads": 16,
            "out_hidden_size": 2048,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
        },
    },
    "qwen2_vl": {
        "model_type": "qwen2_vl",
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
        "vision_config": {"depth": 32, "embed_dim": 1280, "hidden_size": 1536, "mlp_ratio": 4, "num_heads": 16},
    },
}
"""As published for Idefics3-8B, SmolVLM-256M, Gemma 3 4B, LLaVA-NeXT 7B, LLaVA 7B, Qwen2.5-VL-3B and Qwen2-VL-2B."""
PROCESSORS: dict[str, dict[str, Any]] = {
    "idefics3": {"size": {"longest_edge": 1456}, "max_image_size": {"longest_edge": 364}},
    "qwen2_5_vl": {"max_pixels": 12_845_056},
}


def written(folder: Path, family: str) -> Path:
    """A folder with the configuration of a published model, without weights."""
    config = {**PUBLISHED[family], "architectures": [f"{family}ForConditionalGeneration"]}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSORS.get(family, {})))
    return folder


def seeing(family: str, *, lora: dict[str, Any] | None = None, size: int = 1, **values: Any) -> dict[str, Any]:
    """An update of a family, with images of one size: tiles of Idefics3, 16 x 16 patches of Qwen for each."""
    config = CONFIGS[family]
    shown: dict[str, Any] = {
        "idefics3": {"tiles": 4 * size + 1, "image_tokens": 16 * (4 * size + 1)},
        "llava_next": {"tiles": 5, "image_tokens": 64 + 16 * 17},
        "gemma3": {"tiles": 1, "image_tokens": 64},
        "qwen2_5_vl": {"grid": [16, 16 * size], "image_tokens": 64 * size},
    }[family]
    grid = shown.get("grid", [0, 0])
    side = config["vision_config"].get("image_size", 0)
    pixels = grid[0] * grid[1] * 1176 or 3 * side**2 * shown["tiles"]
    asked = traced(device="cpu", prompt=shown["image_tokens"] + 16, **{"completion": 16, "dtype": "float32", **values})
    return {**asked, **shown, "config": config, "pixels": pixels, "lora": lora}


_SPARES = {"r": 8, "targets": "all-linear", "spares_vision": True}
_MIXED = {"dtype": "float32", "autocast": "bfloat16"}


def seeing_cases() -> list[tuple[str, dict[str, Any]]]:
    """Updates with descriptions: each family, full and with adapters, and images of several sizes."""
    found = []
    for family in CONFIGS:
        sizes = (1, 2, 4) if family in ("idefics3", "qwen2_5_vl") else (1,)
        ways: list[tuple[str, dict[str, Any]]] = [
            ("float32", {"batch": 4}),
            ("bfloat16 checkpointing", {"dtype": "bfloat16", "checkpointing": True}),
            ("bfloat16 LoRA", {"dtype": "bfloat16", "lora": _SPARES}),
            ("float32 autocast LoRA checkpointing", {**_MIXED, "checkpointing": True, "lora": _SPARES}),
            ("bfloat16 LoRA in the tower too", {"dtype": "bfloat16", "lora": {**_SPARES, "spares_vision": False}}),
        ]
        for place, (words, values) in enumerate(ways):
            asked = seeing(family, size=sizes[place % len(sizes)], **values)
            shown = f"{asked['batch']} x {asked['pixels'] // read_vision(asked).patch} patches"
            found.append((f"{family} | {words} | {shown}", asked))
    return found


def read_vision(asked: dict[str, Any]) -> Vision:
    """The vision part of an update's model."""
    architecture = read_vision_model(asked["config"])
    assert architecture is not None and architecture.vision is not None
    return architecture.vision


def seeing_update(asked: dict[str, Any]) -> Update:
    """The same update as input of the formulas."""
    update = update_of(asked)._replace(pixels=asked["pixels"])
    if update.adapter is None:
        return update
    return update._replace(adapter=update.adapter._replace(spares_vision=asked["lora"]["spares_vision"]))


def measured_updates(asked: Sequence[dict[str, Any]], python: str = sys.executable) -> Iterator[dict[str, Any]]:
    """The bytes of each update, run one after another in one process."""
    command = [python, "-Xwarm", str(Path(__file__).parent / "seeing_updates.py")]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    lines = "".join(f"{json.dumps(one)}\n" for one in asked)
    ran = subprocess.run(command, input=lines, stdout=subprocess.PIPE, text=True, env=environment, check=True)
    yield from (json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{"))


def computed_update(asked: dict[str, Any]) -> dict[str, int]:
    """The same bytes from the formulas."""
    architecture = read_vision_model(asked["config"])
    assert architecture is not None
    update = seeing_update(asked)
    found = moments(architecture, update)
    assert found is not None
    adapter = found.adapter // 4
    images = update.batch * read_vision(asked).image_bytes(update.pixels)
    return {
        "parameters": architecture.parameters() + adapter,
        "weights": found.weights + found.adapter,
        "gradients": found.gradients,
        "optimizer": found.optimizer,
        "activations": found.activations,
        "peak": found.peak() + images,
        "generation": found.weights
        + found.adapter
        + images
        + cache_bytes(architecture, update, update.batch)
        + generation_bytes(architecture, update, update.batch),
    }
