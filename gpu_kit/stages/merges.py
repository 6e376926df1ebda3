"""Measures a base model's drift when an adapter is merged and unmerged, as TRL does for vLLM."""

from gpu_kit.bench import Bench


def run(bench: Bench) -> None:
    for dtype in ("bfloat16", "float32"):
        found = bench.measured("merge_drift.py", str(bench.model("0.5B")), bench.scale.device, dtype)
        bench.figure(f"{dtype}: drift of the base, effect of the adapter", found)
        if dtype == "float32":
            bench.holds(found["drift"] < 0.001 * found["effect"], "the base drifts in float32 too")
