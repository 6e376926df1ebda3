"""Measures what scoring costs under ZeRO without the shim zero_autocast (SHM027), in float32, and with it, in bfloat16.

    python benchmarks/zero_scoring.py

Scores 4 rows of 256 tokens with a Qwen2 of 107 million parameters, as TRL scores them under DeepSpeed: with the model
itself, without a gradient. Prints the processor seconds of a pass, the median of three, on one thread.
"""

import statistics
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from grpo_recipes.worker.shims.zero_autocast import on_trainer

ROWS, TOKENS, TIMES = 4, 256, 3


def seconds(model: Any, ids: torch.Tensor) -> float:
    """The median of a pass over all rows, behind one that is not counted."""
    found = []
    with torch.no_grad():
        for _ in range(TIMES + 1):
            began = time.process_time()
            model(input_ids=ids)
            found.append(time.process_time() - began)
    return statistics.median(found[1:])


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=8192,
        hidden_size=768,
        intermediate_size=3072,
        num_hidden_layers=10,
        num_attention_heads=12,
        num_key_value_heads=12,
    )
    model = Qwen2ForCausalLM(config).eval()
    ids = torch.randint(0, config.vocab_size, (ROWS, TOKENS))
    plain = seconds(model, ids)
    trainer = SimpleNamespace(model=model, accelerator=SimpleNamespace(device=torch.device("cpu")))
    for stage in (2, 3):
        forward = model.forward
        plan: Any = SimpleNamespace(expect=SimpleNamespace(deepspeed_stage=stage))
        on_trainer(trainer, "bfloat16", plan)
        shimmed = seconds(model, ids)
        model.forward = forward
        print(f"ZeRO-{stage}: {plain:.1f} s in float32, {shimmed:.1f} s in bfloat16: {plain / shimmed:.2f} times")
    parameters = sum(one.numel() for one in model.parameters())
    print(f"{parameters / 1e6:.0f} million parameters, {torch.backends.cpu.get_cpu_capability()}")


if __name__ == "__main__":
    main()
