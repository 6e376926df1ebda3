"""Trains with too little memory, and checks the error message."""

import subprocess
import sys
from pathlib import Path

from gpu_kit.bench import SCRIPTS, Bench, Broken
from gpu_kit.trained import Trained, command, environment, run_of

LEFT_GIB = 5
"""A model of 0.5B in float32 and its gradient fit into this much memory; the optimizer's states do not."""
CPU_KIB = 3 * 2**20


def run(bench: Bench) -> None:
    found = _on_a_full_gpu(bench) if bench.scale.device == "cuda" else _with_a_limit(bench)
    bench.figure("exit", found.code)
    bench.figure("said", found.messages)
    bench.figure("because, fix", [[one["because"], one["fix"]] for one in found.record.get("findings") or []])
    bench.holds(found.code == 1, f"ended with {found.code}: {found.said}")
    bench.holds(any("out of memory" in one for one in found.messages), f"not reported: {found.messages or found.said}")


def _on_a_full_gpu(bench: Bench) -> Trained:
    """Trains while a different process occupies all but a few GiB of the GPU."""
    file = bench.recipe("out_of_memory", "0.5B", lora=False, dtype="float32")
    words = [sys.executable, str(SCRIPTS / "hold_memory.py"), str(LEFT_GIB)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        said = holder.stdout.readline()
        if not said:
            raise Broken("the memory of the GPU could not be occupied")
        bench.figure("held beside it", said.strip())
        try:
            return bench.train(file)
        finally:
            holder.stdin.close()


def _with_a_limit(bench: Bench) -> Trained:
    """Trains with a ulimit on memory, and with eager attention, which exceeds it."""
    file = bench.recipe("out_of_memory", "0.5B", lora=False, dtype="float32")
    settings = [
        *("generation.max_completion_length=1024", "generation.min_tokens=1024", "training.prompts_per_step=16"),
        *("model.attn_implementation=eager", "training.gradient_checkpointing=false"),
    ]
    out = bench.run_folder("out_of_memory")
    words = command("run", str(file), "--out", str(out), *[word for one in settings for word in ("--set", one)])
    limited = ["bash", "-c", f'ulimit -d {CPU_KIB}; exec "$@"', "limited", *words]
    ran = subprocess.run(limited, env=environment(), capture_output=True, text=True)
    return run_of(Path(out), ran.returncode, ran.stdout + ran.stderr, 0.0)
