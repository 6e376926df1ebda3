"""Real runs of grpo-run that are killed again and again, and resumed."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from resumed_runs import trained_lines, weights

from grpo_recipes.contract.host.processes import descendants, send

RECIPE = Path(__file__).parents[2] / "recipes" / "quickstart.yaml"
KILLER = Path(__file__).parent / "killer"
LIMIT_S = 900
SAVE_STEPS = 2
# Four prompts with four answers, two steps for each generation, and lines of figures between the checkpoints.
SMALL = {
    "training.prompts_per_step": 4,
    "training.per_device_train_batch_size": 8,
    "training.save_steps": SAVE_STEPS,
    "training.save_total_limit": 2,
    "training.lr_scheduler_type": "cosine",
    "training.weight_decay": 0.01,
    "training.warmup_steps": 3,
    "grpo.num_generations": 4,
    "grpo.optimizer_steps_per_generation": 2,
    "generation.stop": ["3"],
    "logging.logging_steps": 3,
    "evaluation.max_rows": 4,
    "evaluation.every_steps": 5,
}
KINDS: dict[str, dict[str, object]] = {
    "full": {"lora": None, "training.learning_rate": 3e-4},
    "lora": {"lora.lora_dropout": 0.1},
    "zero2": {
        "lora": None,
        "training.learning_rate": 3e-4,
        "distributed.strategy": "zero2",
        "launch.num_processes": 2,
        "training.per_device_train_batch_size": 4,
    },
}
ANYTIME, ALL_AT_ONCE = "anything", "killed from outside"
# What the one kill of a quick run meets, and what the twenty of a long one do.
MOMENTS = {
    "full": ["before the rename"],
    "lora": ["generation"],
    "zero2": ["backward"],
}
NINETEEN = [
    *["generation"] * 3,
    *["backward"] * 4,
    *["writing a checkpoint"] * 3,
    "before the manifest",
    *["before the rename"] * 2,
    "after the rename",
    "removing an old one",
    *[ANYTIME] * 2,
    *[ALL_AT_ONCE] * 2,
]
LAST = "before the final rename"


@dataclass(frozen=True, slots=True)
class Killed:
    """One kill: what was wanted, and what the process was doing."""

    wanted: str
    seen: tuple[str, ...]
    step: int


@dataclass
class Chain:
    """A run that was killed until it had met all moments, and then finished."""

    folder: Path
    kills: list[Killed] = field(default_factory=list)
    starts: int = 0
    cpu_s: float = 0.0
    output: str = ""


def options(kind: str, steps: int) -> list[str]:
    """The --set options of a run."""
    values = {**SMALL, **KINDS[kind], "training.max_steps": steps}
    return [word for key, value in values.items() for word in ("--set", f"{key}={json.dumps(value)}")]


def begun(
    kind: str, steps: int, place: Path, order: dict[str, object] | None = None, python: str = sys.executable
) -> "subprocess.Popen[str]":
    """`grpo-run RECIPE --out`, or with --resume where the run folder already exists."""
    folder = place / "run"
    words = [str(folder), "--resume"] if folder.exists() else [str(RECIPE), "--out", str(folder), *options(kind, steps)]
    quiet = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    extensions = {"TORCH_EXTENSIONS_DIR": str(place.parent / "extensions")}
    path = os.pathsep.join([str(KILLER), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    killer = {} if order is None else {"PYTHONPATH": path, "KILL_ORDER": json.dumps(order)}
    return subprocess.Popen(
        [python, "-m", "grpo_recipes.cli.main", *words],
        cwd=place,
        env={**os.environ, **quiet, **extensions, **killer},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(kind: str, steps: int, place: Path, python: str) -> Path:
    """The folder of a run that was left alone."""
    process = begun(kind, steps, place, python=python)
    output, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, output
    return place / "run"


def killed_and_resumed(kind: str, steps: int, place: Path, moments: list[str], seed: int, python: str) -> Chain:
    """Kills a run at each of the moments, the last of them last, resumes it each time, and lets it come to its end."""
    draw, chain = random.Random(f"{seed} {kind}"), Chain(place / "run")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    waiting = [*draw.sample(moments[:-1], len(moments) - 1), moments[-1]]
    for number, moment in enumerate(waiting):
        # So many steps remain for the kills that are still to come.
        done = _saved(chain.folder)
        room = max(1, (steps - SAVE_STEPS - done) // (len(waiting) - number))
        order = {
            "doing": moment,
            "step": steps if moment == LAST else done + draw.randrange(1, max(2, min(4, room + 1))),
            "delay": draw.uniform(0, 0.6 if moment in (ANYTIME, ALL_AT_ONCE) else 0.01),
            "rank": draw.randrange(2) if kind == "zero2" and moment in ("generation", "backward") else 0,
            "note": str(place / f"kill-{number}.json"),
        }
        chain.kills.append(_killed(kind, steps, place, order, chain, python))
    process = begun(kind, steps, place, python=python)
    output, _ = process.communicate(timeout=LIMIT_S)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    chain.cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    chain.output += output
    chain.starts = len(waiting) + 1
    assert process.returncode == 0, chain.output
    return chain


def _killed(kind: str, steps: int, place: Path, order: dict[str, object], chain: Chain, python: str) -> Killed:
    moment, note = str(order["doing"]), Path(str(order["note"]))
    if moment == ALL_AT_ONCE:
        process = begun(kind, steps, place, python=python)
        seen = _kill_all(process, chain.folder, int(str(order["step"])), float(str(order["delay"])))
    else:
        process = begun(kind, steps, place, order, python)
        seen = ()
    output, _ = process.communicate(timeout=LIMIT_S)
    chain.output += f"--- {order}\n{output}"
    assert process.returncode not in (0, 3), chain.output
    if moment == ALL_AT_ONCE:
        return Killed(moment, seen, int(str(order["step"])))
    assert note.exists(), f"it ended without its kill\n{chain.output}"
    told = json.loads(note.read_text())
    return Killed(moment, tuple(told["doing"]), told["step"])


def _kill_all(process: "subprocess.Popen[str]", folder: Path, step: int, delay: float) -> tuple[str, ...]:
    """Kills grpo-run and all below it at once, after a checkpoint of this step or a later one has begun."""
    give_up = time.monotonic() + LIMIT_S
    while _saved(folder) < step and process.poll() is None and time.monotonic() < give_up:
        time.sleep(0.02)
    time.sleep(delay)
    everything = [process.pid, *(below.pid for below in descendants(process.pid))]
    send(everything, signal.SIGKILL)
    return (ALL_AT_ONCE,) if len(everything) > 1 else ()


def _saved(folder: Path) -> int:
    """The step of the newest checkpoint by its name, 0 without one."""
    names = [path.name for path in (folder / "checkpoints").glob("checkpoint-*")]
    return max((int(name.partition("-")[2]) for name in names), default=0)


def left(folder: Path) -> dict[str, object]:
    """All that a run leaves that has to be the same."""
    answers = {path.name: path.read_text() for path in sorted((folder / "evaluation").glob("*.jsonl"))}
    return {"weights": weights(folder), "lines": trained_lines(folder), "evaluation": answers}
