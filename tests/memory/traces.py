"""Updates to be traced, as JSON, and the traces of them from one process of a stack."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from grpo_recipes.memory.moments import Moments
from grpo_recipes.memory.update import Adapter, FourBits, Output, Update

_WIDTHS = {"float32": 4, "bfloat16": 2}
ROOT = Path(__file__).parents[2]
SMALL = {
    "model_type": "qwen2",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 4096,
    "tie_word_embeddings": True,
    "max_position_embeddings": 4096,
}


def traced(config: dict[str, Any] | None = None, **values: Any) -> dict[str, Any]:
    """What is to be traced: a full update in bfloat16 of a small model, but for what is given."""
    asked = {
        "dtype": "bfloat16",
        "autocast": None,
        "quantization": None,
        "compute_dtype": "bfloat16",
        "double_quant": True,
        "lora": None,
        "checkpointing": False,
        "attention": "sdpa",
        "batch": 2,
        "prompt": 64,
        "completion": 64,
        "accumulation": 2,
        "beta": 0.0,
        "optimizer": "adamw_torch_fused",
        "device": "cuda",
    }
    assert set(values) <= set(asked), set(values) - set(asked)
    return {"config": SMALL | (config or {}), **asked, **values}


def traces(
    asked: Sequence[dict[str, Any]], packages: str = "", python: str = sys.executable
) -> Iterator[dict[str, Any]]:
    """The bytes of each update, one after the other from one process. packages: a folder that stands before .venv."""
    path = os.pathsep.join([*filter(None, [packages]), str(ROOT / "tests")])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [python, "-Xwarm", "-m", "support.tracing"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for one in asked:
            process.stdin.write(json.dumps(one) + "\n")
            process.stdin.flush()
            line = next((line for line in process.stdout if line.startswith("{")), None)
            assert line is not None, f"no trace of {one}"
            yield json.loads(line)
        process.stdin.close()


def update_of(asked: dict[str, Any], output: Output = "fused") -> Update:
    """The same update as the formulas take it."""
    lora, is_quantized = asked["lora"], asked["quantization"] is not None
    adapter = None
    if lora is not None:
        targets = lora["targets"] if isinstance(lora["targets"], str) else tuple(lora["targets"])
        adapter = Adapter(lora["r"], targets, width=2 if is_quantized else 4)
    four_bits = FourBits(_WIDTHS[asked["compute_dtype"]], asked["double_quant"]) if is_quantized else None
    return Update(
        weight_width=_WIDTHS[asked["dtype"]],
        autocast_width=None if asked["autocast"] is None else _WIDTHS[asked["autocast"]],
        four_bits=four_bits,
        adapter=adapter,
        is_checkpointing=asked["checkpointing"],
        attention=asked["attention"],
        batch=asked["batch"],
        prompt=asked["prompt"],
        completion=asked["completion"],
        accumulation=asked["accumulation"],
        optimizer=asked["optimizer"],
        output=output,
        device=asked["device"],
    )


def pairs(computed: Moments, traced: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Each term and each moment as the formulas have it, and as it was traced."""
    terms, phases = traced["terms"], traced["phases"]
    return {
        "weights": (computed.weights + computed.adapter, terms["weights"]),
        "gradients": (computed.gradients, terms["gradients"]),
        "optimizer": (computed.optimizer, terms["optimizer"]),
        "activations": (computed.activations, terms["activations"]),
        "forward": (computed.forward, phases["backbone forward"]),
        "output forward": (computed.output_forward, phases["output layer forward"]),
        "output backward": (computed.output_backward, phases["output layer backward"]),
        "backward": (computed.backward, phases["backbone backward"]),
        "step": (computed.step, phases["optimizer"]),
        "peak": (computed.peak(), traced["peak"]),
    }
