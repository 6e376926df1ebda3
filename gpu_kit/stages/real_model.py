"""Trains a pretrained model on sums with three seeds on the GPU, as docs/results.md does on the CPU."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gpu_kit.bench import Bench, LeftOut
from gpu_kit.machine import installed
from gpu_kit.trained import Trained, command, environment

SEEDS = (1, 2, 3)
LEAST = 0.3
"""The minimum gain in the share of right answers with each seed; on the CPU it was at least 0.67."""


WITH_VLLM = (
    "generation.use_vllm=true",
    "generation.vllm_mode=colocate",
    "generation.vllm_gpu_memory_utilization=0.05",
    f"generation.vllm_engine.kv_cache_memory_bytes={2 << 30}",
)


def run(bench: Bench) -> None:
    _learns(bench, ())


def run_with_vllm(bench: Bench) -> None:
    if not installed("vllm"):
        raise LeftOut("vllm is not installed")
    _learns(bench, WITH_VLLM)


def _learns(bench: Bench, settings: tuple[str, ...]) -> None:
    if bench.scale.is_small:
        raise LeftOut("make real trains it on the CPU")
    recipe = _recipe(bench)

    def trained(seed: int) -> Trained:
        return bench.train(recipe, f"seed={seed}", *settings, name=f"seed-{seed}", words=("--allow-code", "here"))

    with ThreadPoolExecutor(len(SEEDS)) as side_by_side:
        runs = list(side_by_side.map(trained, SEEDS))
    for seed, one in zip(SEEDS, runs, strict=True):
        evaluation = bench.completed(one).record["evaluation"]
        before, after = (evaluation[when]["pass_at"]["1"] for when in ("before", "after"))
        bench.figure(f"seed {seed}: held-out answers that are right", [before, after])
        bench.holds(after >= before + LEAST, f"seed {seed}: {before:.3f} right before, {after:.3f} after")


def _recipe(bench: Bench) -> Path:
    """Returns the recipe beside the model, which pip fetches from its configured index or folder."""
    place = bench.work / "real" / "smollm2.yaml"
    if not place.exists():
        ran = subprocess.run(
            command("init", "smollm2", "-o", str(place)), env=environment(), capture_output=True, text=True
        )
        if ran.returncode:
            raise LeftOut(f"the model is not available: {(ran.stdout + ran.stderr)[-400:]}")
    return place
