"""Trains a small vision model on the GPU with recipes/colours.yaml, which works on a CPU."""

from gpu_kit.bench import Bench, LeftOut
from gpu_kit.machine import installed
from gpu_kit.trained import ROOT

RECIPE = ROOT / "recipes" / "colours.yaml"
LEAST = 0.4
"""The minimum gain in the share of right answers; on the CPU it was at least 0.58."""
ADAPTER = (
    "lora.r=16",
    "lora.lora_alpha=32",
    "model.dtype=bfloat16",
    "training.bf16=true",
    "training.gradient_checkpointing=true",
)


def run(bench: Bench) -> None:
    """Trains all weights in float32, and LoRA in bfloat16."""
    if not installed("PIL"):
        raise LeftOut("pillow is not installed")
    for name, settings in (("whole", ()), ("adapter", ADAPTER)):
        found = bench.completed(bench.train(RECIPE, *settings, name=name))
        bench.holds(found.proofs.get("PRF037") is True, f"PRF037: {found.shown.get('PRF037', 'was not made')}")
        before, after = (found.record["evaluation"][when]["pass_at"]["1"] for when in ("before", "after"))
        bench.figure(f"{name}: held-out answers that are right", [before, after])
        bench.holds(after >= before + LEAST, f"{name}: {before:.3f} right before, {after:.3f} after")
