"""LoRA in bfloat16, as most people train."""

from gpu_kit.bench import Bench
from gpu_kit.trained import Trained, run_of


def first_run(bench: Bench) -> Trained:
    """The training that is repeated to see whether the same comes of it."""
    return bench.completed(bench.train(bench.recipe("lora", "0.5B")))


def run(bench: Bench) -> None:
    found = first_run(bench)
    for proof, ok in found.proofs.items():
        bench.holds(ok is True, f"{proof} was not seen: {found.shown[proof]}")
    kernels = sorted({place.stem for place in (bench.folder / "triton").rglob("*.cubin")})
    bench.figure("Triton's kernels", kernels)
    if bench.scale.device == "cuda":
        bench.holds(bool(kernels), "no kernel of Triton was compiled, so the output layer is not fused")


def run_again(bench: Bench) -> None:
    folder = bench.work / "stages" / "lora" / "run-lora"
    before = run_of(folder, 0, "", 0.0)
    if before.record.get("status") != "completed":
        before = first_run(bench)
    again = bench.completed(bench.train(bench.recipe("again", "0.5B")))
    bench.figure("equal losses", again.losses == before.losses)
    bench.holds(again.losses == before.losses, f"losses and gradient norms {again.losses}, before {before.losses}")


def run_7b(bench: Bench) -> None:
    bench.completed(bench.train(bench.recipe("lora_7b", "7B"), "training.max_steps=3"))
