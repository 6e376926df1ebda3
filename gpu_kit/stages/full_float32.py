"""Trains all weights in float32, computed in bfloat16."""

from gpu_kit.bench import Bench


def run(bench: Bench) -> None:
    bench.completed(bench.train(bench.recipe("full_float32", "0.5B", lora=False, dtype="float32")))
