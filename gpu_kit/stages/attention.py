"""Compares the gradients of attention kernels, also on a left-padded batch."""

from gpu_kit.bench import PROMPT, TEMPLATE, Bench, LeftOut
from gpu_kit.machine import installed

MOST_OFF = 1e-4
SHIM = "attention_gradient"


def run(bench: Bench) -> None:
    """Compares gradients on rows of 64 tokens, some padded on the left: with cuDNN's kernel, bfloat16 can give NaN."""
    model = str(bench.model("0.5B"))
    bench.folder.mkdir(parents=True, exist_ok=True)
    for dtype in ("float32", "bfloat16"):
        places = [bench.folder / f"{kernel}-{dtype}.safetensors" for kernel in ("sdpa", "eager")]
        for place in places:
            kernel = place.stem.partition("-")[0]
            bench.measured("gradient.py", model, str(place), kernel, dtype, bench.scale.device, SHIM)
        found = bench.measured("differences.py", *map(str, places))
        bench.figure(f"{dtype}: largest difference of a tensor", found)
        most = MOST_OFF if dtype == "float32" else 1
        bench.holds(found["relative"] <= most, f"{dtype}: {found['tensor']} differs by {found['relative']:.1e}")


def run_padded(bench: Bench) -> None:
    """Trains on rows of 192 tokens with prompts of two lengths, and compares with TRL alone."""
    kernels = bench.measured("attention_kernels.py", bench.scale.device)
    bench.figure("kernels", kernels)
    tokens = bench.scale.tokens(192 - PROMPT - TEMPLATE)
    file = bench.recipe("padded", "0.5B", tokens=tokens, shorter=bench.scale.times(8, 2))
    settings = ("training.max_steps=2", f"generation.min_tokens={tokens}")
    found = bench.completed(bench.train(file, *settings))
    said = (found.record.get("shims") or {}).get(SHIM, "is not in the plan")
    bench.figure("the shim", said)
    plain = bench.measured("plain_trl.py", str(found.folder / "plan.json"), str(bench.folder / "plain"), "1")
    bench.figure("gradient norms of TRL alone", plain["gradient_norms"])
    bench.figure("gradient norms", [norm for _, norm in found.losses])
    if bench.scale.device == "cuda":
        defect = bool(kernels["torch's choice"]["not finite"])
        bench.holds(defect != kernels["the shim finds it finite"], "the shim's test disagrees with the kernels")
        bench.holds(("is off" in said) == defect, f"the shim reports {said!r}, but the defect exists: {defect}")


def run_flash(bench: Bench) -> None:
    """Compares training with FlashAttention 2 and with torch's kernels."""
    if bench.scale.device != "cuda":
        raise LeftOut("FlashAttention needs a GPU")
    if not (installed("flash_attn") or installed("kernels")):
        raise LeftOut("neither flash-attn nor kernels is installed")
    file = bench.recipe("flash", "0.5B", shorter=8)
    for kernel in ("sdpa", "flash_attention_2"):
        bench.completed(bench.train(file, f"model.attn_implementation={kernel}", name=kernel))
