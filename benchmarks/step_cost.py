"""Measures what grpo-run adds to a training step, against a TRL script with the same arguments and seed.

    python benchmarks/step_cost.py [--size short] [--rounds 6] [--steps 60] [--check]
    python benchmarks/step_cost.py --size real --rounds 2 --steps 24

Each round trains the same twice at once, through grpo-run and through the script below, without evaluation, each with
one process and one thread on a core of its own; the next round changes the cores. So what the machine does beside it
slows both. Compared are the times by the clock between the ends of two steps, each step with the same one of the other,
and the processor time of the training; the losses and rewards must be the same, so trl trains on what it rounds where
all rewards of a group are equal, and pads as it does (`--accept SHM024`, `--accept SHM025`). With --check: exit 1
when one differs, or the ratio of the steps is above 1.01 beyond what the rounds differ by. Two processes that train the
same differ by a tenth; step_share.py shows less.

--size  short  the quickstart: 128 completions of 6 tokens, a fifth of a second
        long   512 completions of 1,024 tokens by the same model, with two stop texts that never come through grpo-run,
               which the script knows nothing of: minutes a step, so --rounds 2 --steps 3
        real   the sums of `make real`, which writes build/real: SmolLM2-135M-Instruct, 32 completions of 12 tokens,
               12 GiB of memory for the two
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
MOST = 1.01
SETTINGS = {
    "short": (),
    "long": (
        "training.prompts_per_step=64",
        "training.per_device_train_batch_size=64",
        "generation.max_completion_length=1024",
        "generation.stop=['zqzqzq', 'jxjxjxjx']",
        "generation.generation_kwargs.suppress_tokens=[57]",  # the end of the sequence
    ),
    "real": (),
}
SCRIPT = """
import hashlib, json, re, sys, time
from datasets import load_dataset
from peft import LoraConfig
from transformers import TrainerCallback, set_seed
from trl import GRPOConfig, GRPOTrainer
class SeedEachStep(TrainerCallback):
    def on_step_begin(self, args, state, control, **kwargs):
        words = f"{args.seed} {state.global_step} {args.process_index}"
        set_seed(int.from_bytes(hashlib.sha256(words.encode()).digest()[:4], "big"))
plan = json.load(open(sys.argv[1]))
arguments = plan["arguments"]
def exact_match(completions, solution, **kwargs):
    return [float(c[0]["content"].strip() == s) for c, s in zip(completions, solution)]
def solved(completions, solution, **kwargs):
    numbers = [re.findall(r"\d+", c[0]["content"].strip().partition(chr(10))[0]) for c in completions]
    return [float(bool(found) and found[-1] == right) for found, right in zip(numbers, solution)]
def completion_length(completions, **kwargs):
    return [min(1.0, max(0.0, (40 - len(c[0]["content"])) / 38)) for c in completions]
rows = load_dataset("json", data_files=plan["data"]["path"], split="train", cache_dir=sys.argv[2])
system = plan["data"]["system_prompt"]
before = [{"role": "system", "content": system}] if system else []
rows = rows.map(
    lambda row: {"prompt": [*before, {"role": "user", "content": row["question"]}], "solution": row["answer"]}
)
set_seed(arguments["GRPOConfig"]["seed"])
times = []
class NoteSteps(TrainerCallback):
    def on_step_end(self, *given, **named):
        times.append(time.time())
trainer = GRPOTrainer(
    model=plan["model"]["path"],
    reward_funcs=[globals()[reward["name"]] for reward in plan["rewards"]],
    args=GRPOConfig(sys.argv[2], model_init_kwargs=arguments["model_init_kwargs"], **arguments["GRPOConfig"]),
    train_dataset=rows,
    peft_config=LoraConfig(**arguments["LoraConfig"]),
    callbacks=[SeedEachStep(), NoteSteps()],
)
started = time.process_time()
trainer.train()
cpu_s = time.process_time() - started
losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
step_s = [later - earlier for earlier, later in zip(times, times[1:])]
rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
told = {"cpu_s": cpu_s, "step_s": step_s, "losses": losses, "rewards": rewards, "first": times[0], "gib": peak / 2**20}
json.dump(told, open(sys.argv[3], "w"))
"""


class Training(NamedTuple):
    """cpu_s: of the training; step_s: from the end of each step to that of the next one; first: when the first ended.

    losses, rewards: of each step; gib: the most memory of the process.
    """

    cpu_s: float
    step_s: list[float]
    losses: list[float]
    rewards: list[float]
    first: float
    gib: float


def recipe_of(size: str, work: Path) -> Path:
    """The quickstart's recipe; for long completions a copy of it, whose model may read so many tokens."""
    if size == "real":
        return ROOT / "build/real/smollm2.yaml"
    if size == "short":
        return ROOT / "recipes" / "quickstart.yaml"
    shutil.copytree(ROOT / "recipes" / "quickstart", work / "quickstart")
    config = work / "quickstart" / "model" / "config.json"
    known = json.loads(config.read_text(encoding="utf-8"))
    config.write_text(json.dumps(known | {"max_position_embeddings": 2048}), encoding="utf-8")
    return Path(shutil.copy(ROOT / "recipes" / "quickstart.yaml", work))


def planned(recipe: Path, folder: Path, settings: Sequence[str]) -> None:
    """Makes a run folder that nothing trained yet."""
    command = [sys.executable, "-m", "grpo_recipes.cli.main", str(recipe), "--dry-run", "--out", str(folder)]
    command += ["--allow-code", "here", "--accept", "SHM024", "--accept", "SHM025"]  # as TRL alone trains
    for setting in settings:
        command += ["--set", setting]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)


def at_once(
    commands: Mapping[str, Sequence[str]], cores: Sequence[int], environment: Mapping[str, str], log: Path
) -> None:
    """Runs the commands together, each on one core. Ends the benchmark when one of them fails."""
    running = []
    for (name, command), core in zip(commands.items(), cores, strict=True):
        with (log / f"{name}.log").open("w", encoding="utf-8") as output:
            pinned = ["taskset", "-c", str(core), *command]
            running.append((name, subprocess.Popen(pinned, env=environment, stdout=output, stderr=output)))
    for name, process in running:
        if process.wait() != 0:
            for _, other in running:
                other.terminate()
                other.wait()
            sys.exit(f"{name} ended with {process.returncode}:\n{(log / f'{name}.log').read_text(encoding='utf-8')}")


def through_grpo_run(folder: Path) -> Training:
    """What a run left behind."""
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    told = [event for event in events if event["event"] == "step"]
    losses, rewards = ([event[name] for event in told] for name in ("loss", "reward"))
    peak = max(phase["measured"] for phase in record["memory"].values()) / 2**30
    times = [event["time"] for event in told]
    return Training(record["train_cpu_s"], between(times), losses, rewards, times[0], peak)


def between(times: Iterable[float]) -> list[float]:
    """Seconds from each time to the next."""
    return [later - earlier for earlier, later in pairwise(times)]


def interval(rounds: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The 95 % percentile bootstrap of the median of all ratios, 2,000 draws of whole rounds."""
    drawn = random.Random(0)
    draws = (drawn.choices(rounds, k=len(rounds)) for _ in range(2000))
    medians = sorted(statistics.median(chain.from_iterable(draw)) for draw in draws)
    return medians[50], medians[1949]


def main() -> int:
    """Measures and prints; with --check, 1 when the bound does not hold, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=tuple(SETTINGS), default="short")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    settings = [*SETTINGS[options.size], f"training.max_steps={options.steps}"]
    settings += ["training.save_steps=0", "evaluation=null"]
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        sys.exit("this needs two cores, one for each of the two trainings")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHON": sys.executable}
    steps: list[list[float]] = []
    cpu: list[float] = []
    equal = True
    with tempfile.TemporaryDirectory() as work:
        recipe = recipe_of(options.size, Path(work))
        for number in range(options.rounds):
            run, script, result = (Path(work, f"{name}{number}") for name in ("run", "script", "result"))
            script.mkdir()
            planned(recipe, run, settings)
            commands = {
                "grpo-run": ["bash", str(run / "launch.sh")],
                "by hand": [sys.executable, "-c", SCRIPT, str(run / "plan.json"), str(script), str(result)],
            }
            began = time.time()
            at_once(commands, cores[:: -1 if number % 2 else 1], environment, Path(work))
            ours, theirs = through_grpo_run(run), Training(**json.loads(result.read_text(encoding="utf-8")))
            equal = equal and (ours.losses, ours.rewards) == (theirs.losses, theirs.rewards)
            steps.append([mine / other for mine, other in zip(ours.step_s, theirs.step_s, strict=True)])
            cpu.append(ours.cpu_s / theirs.cpu_s)
            for name, one in (("grpo-run", ours), ("by hand", theirs)):
                of_step = statistics.median(one.step_s)
                print(
                    f"round {number + 1}  {name:8}  {one.cpu_s:.2f} CPU s  {of_step:.4f} s a step  first step ended "
                    f"after {one.first - began:.1f} s  {one.gib:.2f} GiB",
                    flush=True,
                )
    every = list(chain.from_iterable(steps))
    same = "equal" if equal else "DIFFER"
    median, (low, high) = statistics.median(every), interval(steps)
    print(
        f"grpo-run : by hand  {median:.4f} by the clock, 95 % {low:.4f} to {high:.4f} (median of {len(every)} steps), "
        f"{statistics.median(cpu):.4f} of CPU s (median of {options.rounds}), losses and rewards {same}"
    )
    return int(options.check and (low > MOST or not equal))


if __name__ == "__main__":
    sys.exit(main())
