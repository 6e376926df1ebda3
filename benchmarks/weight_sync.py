"""Measures what a hand-over of weights to vLLM costs, all of them or the adapter alone; `--write` makes weight_sync.md.

    python benchmarks/weight_sync.py [--only NAME]... [--write]

The first table is computed. The rows of the second one are trainings with `grpo-run` on the CPU, by .venv-vllm, which
`make test-vllm` makes; those of SmolLM2 need build/real, which `make real-model` makes. TRL alone cannot hand weights
to vLLM on a CPU: where all are handed over, tests/with_vllm/cpu_weights does it. Rows that are not named stay as they
are. timed_calls/ lets PRF011 compare every fourth generation, for more than two comparisons in a run.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gpu_kit.scale import SHAPES, Shape  # noqa: E402

PAGE = ROOT / "benchmarks" / "weight_sync.md"
BUILT = ROOT / "build" / "weight_sync"
PYTHON = ROOT / ".venv-vllm" / "bin" / "python"
# Source: config.json of Qwen/Qwen2.5-72B; gpu_kit/scale.py has the other two.
MODELS = {name: SHAPES[name] for name in ("0.5B", "7B")} | {"72B": Shape(8192, 29568, 80, 64, 8, False, 152_064)}
RANK = 16
RATES = {"25 GB/s": 25e9, "1.25 GB/s": 1.25e9}
EVERY, EVERY_HERE = 64, 4
APART = "sampling/sampling_logp_difference/mean"
FOUR_BITS = "quantization={load_in_4bit: true, bnb_4bit_quant_type: nf4, bnb_4bit_compute_dtype: float32}"
COMMON = ("training.save_steps=0", "evaluation=null", "generation.use_vllm=true",
          "generation.vllm_max_model_length=128", "generation.vllm_engine={enforce_eager: true}")  # fmt: skip
RECIPES = {
    "tiny": (ROOT / "recipes" / "quickstart.yaml", ("training.max_steps=20",)),
    "SmolLM2": (
        ROOT / "build" / "real" / "smollm2.yaml",
        ("training.max_steps=20", "grpo.num_generations=4"),
    ),
}
WAYS = {
    "adapter, in the process": ("vllm_mode=colocate", "weight_sync=adapter"),
    "all weights, in the process": ("vllm_mode=colocate", "weight_sync=full"),
    "adapter, server": ("vllm_mode=server", "weight_sync=adapter"),
    "all weights, server": ("vllm_mode=server", "weight_sync=full"),
}
TWO = ("launch.num_processes=2",)
ROWS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    **{f"{model}, {way}": (model, way, ()) for model in RECIPES for way in WAYS},
    **{f"{model}, nf4, {way}": (model, way, (FOUR_BITS,)) for model in RECIPES for way in WAYS if "adapter" in way},
    **{f"{model}, two processes, {way}": (model, way, TWO) for model in RECIPES for way in WAYS if "adapter" in way},
    **{
        f"{model}, nf4, two processes, {way}": (model, way, (FOUR_BITS, *TWO))
        for model in RECIPES
        for way in WAYS
        if "adapter" in way
    },
}
HEAD = (
    "| run | MB | s | generation, s | step, s | log-probabilities apart: mean, worst step | reward | comparison, s"
    " | of a step |",
    "|---|---:|---:|---:|---:|---:|---|---:|---:|",
)


def adapter_parameters(shape: Shape) -> int:
    """Of an adapter of all linear layers but the output layer."""
    kv = shape.hidden * shape.kv_heads // shape.heads
    inner = shape.hidden + shape.intermediate
    return RANK * shape.layers * (4 * shape.hidden + 2 * (shape.hidden + kv) + 3 * inner)


def computed() -> list[str]:
    """Bytes and seconds of a hand-over by model."""
    heads = [f"{way}, s at {rate}" for way in ("all", "adapter") for rate in RATES]
    lines = [
        f"| Qwen2.5 | all weights, GB | adapter, float32, MB | bfloat16, MB | all : float32 | {' | '.join(heads)} |",
        "|---|" + "---:|" * (4 + len(heads)),
    ]
    for name, shape in MODELS.items():
        every, adapter = 2 * shape.parameters, 4 * adapter_parameters(shape)
        cells = [f"{every / 1e9:.2f}", f"{adapter / 1e6:.0f}", f"{adapter / 2e6:.0f}", f"{every / adapter:.0f}"]
        cells += [f"{size / rate:.3g}" for size in (every, adapter) for rate in RATES.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def trained(name: str) -> str:
    """Trains a row, and gives its line of the table."""
    model, way, more = ROWS[name]
    recipe, settings = RECIPES[model]
    run, calls = BUILT / re.sub(r"\W+", "-", name), BUILT / "compared.txt"
    shutil.rmtree(run, ignore_errors=True)
    calls.unlink(missing_ok=True)
    command = [str(PYTHON), "-m", "grpo_recipes.cli.main", str(recipe), "--out", str(run)]
    command += ["--accept", "GEN001", "--accept", "GEN008"] * ("full" in WAYS[way][1])
    command += ["--allow-code", "here"] * (model == "SmolLM2")
    generation = tuple(f"generation.{one}" for one in WAYS[way])
    command += [word for one in (*COMMON, *settings, *generation, *more) for word in ("--set", one)]
    variables = {
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT / "benchmarks" / "timed_calls"),
        "TIMED_CALLS": str(calls),
        "TIMED_EVERY": str(EVERY_HERE),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_SERVER_DEV_MODE": "1",
    }
    with (BUILT / "last.log").open("w") as log:
        done = subprocess.run(command, env=os.environ | variables, stdout=log, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(f"{name}: exit {done.returncode}, see {BUILT}/last.log")
    steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    steps = [line for line in steps if line["event"] == "step"]
    return line(name, size(run, recipe, way), steps, [float(line) for line in calls.read_text().splitlines()])


def size(run: Path, recipe: Path, way: str) -> int:
    """Bytes of a hand-over: of the adapter's folder, or of all weights in float32."""
    if "adapter" in way:
        (last,) = (run / "cache" / "adapter-0").iterdir()
        return sum(file.stat().st_size for file in last.iterdir())
    (weights,) = recipe.with_suffix("").glob("model/*.safetensors")
    with weights.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    ends = (tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__")
    width = {tensor["dtype"] for name, tensor in header.items() if name != "__metadata__"}
    return max(ends) * {"F32": 1, "BF16": 2}[width.pop()]


def line(name: str, moved: int, steps: list[dict[str, Any]], comparisons: list[float]) -> str:
    """A row of the table. comparisons: seconds; the first comes before any movement, and scores half of the rows."""
    handed, generated = (median(step[f"seconds/{phase}"] for step in steps[1:]) for phase in ("sync", "generate"))
    compared = median(comparisons[1:])
    of_step = median(after["time"] - before["time"] for before, after in pairwise(steps))
    apart = [step[APART] for step in steps]
    rewards = [step["reward"] for step in steps]
    cells = [
        f"{moved / 1e6:.2f}",
        f"{handed:.3f}",
        f"{generated:.2f}",
        f"{of_step:.2f}",
        f"{fmean(apart):.0e}, {max(apart):.0e}",
        f"{fmean(rewards[:5]):.2f} -> {fmean(rewards[-5:]):.2f}",
        f"{compared:.3f}",
        f"{compared / EVERY / of_step:.2%}",
    ]
    return f"| {name} | {' | '.join(cells)} |"


def replaced(text: str, name: str, lines: list[str]) -> str:
    """The page with another table between its two comments."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    return text.split(begin)[0] + begin + "\n".join(lines) + "\n" + end + text.split(end)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=ROWS, help="more than one may be named")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    BUILT.mkdir(parents=True, exist_ok=True)
    print(*computed(), sep="\n", flush=True)
    for name in options.only or ROWS:
        row = trained(name)
        print(row, flush=True)
        if options.write:
            text = PAGE.read_text(encoding="utf-8")
            rows = {one: found for one in ROWS for found in text.splitlines() if found.startswith(f"| {one} |")}
            rows[name] = row
            text = replaced(text, "measured", [*HEAD, *(rows[one] for one in ROWS if one in rows)])
            PAGE.write_text(replaced(text, "computed", computed()), encoding="utf-8")


if __name__ == "__main__":
    main()
