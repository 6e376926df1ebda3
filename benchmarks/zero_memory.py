"""Measures what DeepSpeed's ZeRO holds beside the estimate, two processes on the CPU; `--write` makes zero_memory.md.

    python benchmarks/zero_memory.py [--strategies zero2,zero3] [--write]

Trains four sizes of a Qwen2 with random weights through `grpo-run`: all weights, float32 under bfloat16. Measured is
the most resident memory of either process in a phase, beside its estimate, both from run.json. A block that a process
frees is given back to the kernel at once (ALLOCATOR in memory.py), so that the peak is that of what is alive.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "benchmarks" / "zero_memory.md"
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from memory import ALLOCATOR  # noqa: E402

from gpu_kit.bench import Bench, recipe, write_rows  # noqa: E402
from gpu_kit.scale import Scale, Shape  # noqa: E402
from gpu_kit.trained import train  # noqa: E402
from grpo_recipes.memory.estimate import LIBRARIES  # noqa: E402

MIB = 2**20
SHAPES = tuple(
    Shape(hidden, 3 * hidden, layers, hidden // 64, hidden // 64, True, 4096)
    for hidden, layers in ((256, 8), (512, 8), (640, 8), (640, 12))
)
PHASES = ("load", "generate", "update")
PROMPT, TOKENS, PROMPTS, MICRO_BATCH = 32, 16, 2, 4
HEAD = f"""# ZeRO's memory: the estimate against DeepSpeed

<!-- made by benchmarks/zero_memory.py -->

Full training with float32 weights under bfloat16, checkpointed, with deepspeed 0.19.8 in two processes on the CPU:
{PROMPTS * 8} completions of {TOKENS} tokens in a step, micro-batches of {MICRO_BATCH}, two steps. Each cell has the
resident MiB of the fuller process and, in brackets, the estimate, which includes {LIBRARIES // MIB} for Python with its
libraries. The last row of a strategy excludes that part: it has the additional bytes for each additional parameter of
the largest model compared with the smallest.

"""
Found = dict[str, tuple[int, int]]


def measured(strategy: str, shape: Shape, work: Path) -> Found:
    """Two steps of a training of this size: bytes by phase, measured and estimated."""
    model, name = work / f"model-{shape.parameters}", f"{strategy}-{shape.parameters}"
    if not model.exists():
        bench = Bench(strategy, Scale("cpu"), work)
        bench.script("make_model.py", str(model), "cpu", json.dumps(shape._asdict()))
    rows = write_rows(work / "rows", PROMPT)
    content = recipe(name, model, rows, tokens=TOKENS, prompts=PROMPTS, dtype="float32", lora=False)
    content["generation"] |= {"max_prompt_length": PROMPT + 8, "min_tokens": TOKENS}
    content["training"] |= {"max_steps": 2, "per_device_train_batch_size": MICRO_BATCH}
    content |= {"distributed": {"strategy": strategy}, "launch": {"num_processes": 2}}
    place = work / f"{name}.yaml"
    place.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    ended = train(work / name, "run", str(place), "--out", str(work / name), **ALLOCATOR, OMP_NUM_THREADS="1")
    if ended.code:
        raise SystemExit(f"{name}: exit {ended.code}: {ended.said}")
    return {phase: (one["measured"], one["estimated"]) for phase, one in ended.record["memory"].items()}


def page(found: dict[str, list[Found]]) -> str:
    """The table of all strategies."""
    lines = ["| | million parameters | " + " | ".join(PHASES) + " |", "|---|---|" + "---|" * len(PHASES)]
    for strategy, sizes in found.items():
        for shape, phases in zip(SHAPES, sizes, strict=True):
            cells = (f"{phases[one][0] / MIB:.0f} ({phases[one][1] / MIB:.0f})" for one in PHASES)
            lines.append(f"| {strategy} | {shape.parameters / 1e6:.1f} | {' | '.join(cells)} |")
        more = SHAPES[-1].parameters - SHAPES[0].parameters
        growth = [[(sizes[-1][one][at] - sizes[0][one][at]) / more for at in (0, 1)] for one in PHASES]
        cells = (f"{there:.1f} ({estimated:.1f})" for there, estimated in growth)
        lines.append(f"| {strategy} | bytes for each more | {' | '.join(cells)} |")
    return HEAD + "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--strategies", default="zero2,zero3")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = {
            strategy: [measured(strategy, shape, Path(folder)) for shape in SHAPES]
            for strategy in options.strategies.split(",")
        }
    print(page(found))
    if options.write:
        PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
