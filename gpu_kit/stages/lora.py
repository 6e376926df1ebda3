"""Trains LoRA in bfloat16, the most common setup."""

from gpu_kit.bench import DETERMINISTIC, Bench
from gpu_kit.stages.peaks import peak


def run(bench: Bench) -> None:
    found = bench.completed(bench.train(bench.recipe("lora", "0.5B")))
    for proof, ok in found.proofs.items():
        bench.holds(ok is True, f"{proof} was not proved: {found.shown[proof]}")
    kernels = sorted({place.stem for place in (bench.folder / "triton").rglob("*.cubin")})
    bench.figure("Triton's kernels", kernels)
    if bench.scale.device == "cuda":
        bench.holds(bool(kernels), "no kernel of Triton was compiled, so the output layer is not fused")


def run_again(bench: Bench) -> None:
    files = [bench.recipe(name, "0.5B", tokens=128) for name in ("first", "again")]
    first, again = (bench.completed(bench.train(file, DETERMINISTIC)).losses for file in files)
    bench.figure("equal losses", again == first)
    bench.holds(again == first, f"losses and gradient norms {again}, before {first}")


def run_7b(bench: Bench) -> None:
    peak(bench, "7B", lora=True)
