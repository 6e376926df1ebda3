"""Compares the GPU memory that trainings use with the plan's estimate."""

import json
import shutil

from gpu_kit.bench import GIB, PROMPT, TEMPLATE, Bench

MOST_OFF = 0.25


def run_lora(bench: Bench) -> None:
    for size in ("0.5B", "1.5B", "3B")[: bench.scale.times(3, 1)]:
        peak(bench, size, lora=True)


def run_14b(bench: Bench) -> None:
    try:
        peak(bench, "14B", lora=True)
    finally:
        if not bench.scale.is_small:  # 28 GiB that nothing else needs
            shutil.rmtree(bench.work / "models" / "14B", ignore_errors=True)


def run_full(bench: Bench) -> None:
    for size in ("0.5B", "1.5B", "3B")[: bench.scale.times(3, 1)]:
        peak(bench, size, lora=False)


def peak(bench: Bench, size: str, *, lora: bool) -> None:
    """Runs two steps with completions of maximum length. CPU figures include the interpreter; they are not judged."""
    way = "lora" if lora else "full"
    file = bench.recipe(f"{way}-{size}", size, lora=lora, dtype="bfloat16" if lora else "float32")
    tokens = bench.scale.tokens(256)
    settings = (
        f"generation.min_tokens={tokens}",
        f"generation.max_prompt_length={bench.scale.tokens(PROMPT) + TEMPLATE}",
    )
    run = bench.completed(bench.train(file, "training.max_steps=2", *settings))
    most = run.peak()
    bench.holds(most is not None, f"{way} {size}: nothing was measured")
    if most is None or most[2] is None:
        return
    phase, measured, estimated = most
    # The driver's context is estimated, but torch's counter leaves it out.
    planned = json.loads((run.folder / "plan.json").read_text())["memory"]["phases"][phase]
    estimated -= planned.get("context", 0)
    off = estimated / measured - 1
    bench.figure(f"{way} {size}", f"{measured / GIB:.2f} GiB in {phase}, estimated {estimated / GIB:.2f} ({off:+.0%})")
    if not bench.scale.is_small:
        bench.holds(abs(off) <= MOST_OFF, f"{way} {size}: the estimate is off by {off:+.0%}")
    shutil.rmtree(run.folder / "final", ignore_errors=True)
