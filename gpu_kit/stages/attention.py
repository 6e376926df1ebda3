"""The gradient with one attention kernel, against that with another."""

from gpu_kit.bench import Bench

MOST_OFF = 1e-4


def run(bench: Bench) -> None:
    model = str(bench.model("0.5B"))
    bench.folder.mkdir(parents=True, exist_ok=True)
    for dtype in ("float32", "bfloat16"):
        places = [bench.folder / f"{kernel}-{dtype}.safetensors" for kernel in ("sdpa", "eager")]
        for place in places:
            kernel = place.stem.partition("-")[0]
            bench.measured("gradient.py", model, str(place), kernel, dtype, bench.scale.device)
        found = bench.measured("differences.py", *map(str, places))
        bench.figure(f"{dtype}: largest difference of a tensor", found)
        if dtype == "float32":
            bench.holds(found["relative"] <= MOST_OFF, f"{found['tensor']} differs by {found['relative']:.1e}")
