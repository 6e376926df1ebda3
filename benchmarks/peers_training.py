"""Trains the same with grpo-run and with programs like it: `python benchmarks/peers_training.py [--write]`.

Same model (SmolLM2-135M-Instruct, which `make real-model` builds), rows, reward, seed and steps: an adapter, answers
of up to 192 tokens, 4 prompts with 8 answers each in a step, float32. Each program cuts a step as it does by default:
grpo-run as its plan says, the others into TRL's micro-batches of 8. Two tasks: `sums` as those of `make real`, whose
answers differ in length, and `problems` with "think step by step", of whose answers most are cut off.

    grpo-run       a recipe without a batch size
    TRL, a script  GRPOTrainer with the arguments of the plan and grpo-run's seed for each step, so that losses can be
                   compared
    trl grpo       TRL's command, with the same arguments in its own file
    soup-cli       its own file, as far as it has the settings; installed beside the packages of this environment

Whole processes take turns; medians of the rounds, and the most memory of any. Seconds of a step are TRL's own
`step_time` of the last step of each round, without the optimizer. --write: the task's part of peers_training.md.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import peers
import yaml
from validate_time import ROOT, Cost, run

from grpo_recipes.api import load, plan

SCRIPT_NAME = f"TRL {version('trl')}, a script"
PAGE = Path(__file__).with_name("peers_training.md")
MODEL = ROOT / "build" / "real" / "smollm2" / "model"
PROMPTS, GENERATIONS, TOKENS, OF_TRL = 4, 8, 192, 8
HEAD = """# The same training with similar programs

The docstring of `benchmarks/peers_training.py` says what is trained, and how each program cuts a step.
"""
NAMES = ("Anna", "Ben", "Carla", "David")
THINGS = ("apples", "pens", "stamps", "marbles", "cards")
ADAPTER = {"r": 16, "lora_alpha": 32, "lora_dropout": 0.0, "target_modules": "all-linear"}
REWARD = '''
import re


def reward_fn(completions, solution, **kwargs):
    """1 if the last number of an answer is the right one, and less for answers that are longer than 200 letters."""
    texts = [completion[-1]["content"] for completion in completions]
    last = [(re.findall(r"\\d+", text) or [""])[-1] for text in texts]
    rows = zip(texts, last, solution)
    return [float(number == right) - max(0, len(text) - 200) / 1000 for text, number, right in rows]
'''
SCRIPT = """
import hashlib, json, sys, time
from datasets import load_dataset
from peft import LoraConfig
from transformers import TrainerCallback, set_seed
from trl import GRPOConfig, GRPOTrainer
from solved import reward_fn
class SeedEachStep(TrainerCallback):
    def on_step_begin(self, args, state, control, **kwargs):
        words = f"{args.seed} {state.global_step} {args.process_index}"
        set_seed(int.from_bytes(hashlib.sha256(words.encode()).digest()[:4], "big"))
class Timed(GRPOTrainer):
    def _generate(self, *given, **named):
        began = time.perf_counter()
        generated = super()._generate(*given, **named)
        self._metrics["train"]["seconds/generate"].append(time.perf_counter() - began)
        return generated
given = json.load(open("arguments.json"))
trainer = Timed(
    model=given["model"],
    reward_funcs=[reward_fn],
    args=GRPOConfig(sys.argv[1], **given["GRPOConfig"]),
    train_dataset=load_dataset("json", data_files="rows/train.jsonl", split="train"),
    peft_config=LoraConfig(**given["LoraConfig"]),
    callbacks=[SeedEachStep()],
)
trainer.train()
"""


class Task(NamedTuple):
    """What the model is asked. system_prompt: empty for none; write: a row's question and answer, from its number."""

    temperature: float
    system_prompt: str
    write: Callable[[int], tuple[str, int]]


class Training(NamedTuple):
    """cost: of the whole process. step_s, generation_s: of the last step; None if it is not known. losses: of steps."""

    cost: Cost
    step_s: float
    generation_s: float | None
    losses: list[float]


def write_sum(number: int) -> tuple[str, int]:
    """A sum of two numbers below 20, of which no two of the first rows are the same."""
    first, second = 6 + number * 5 % 14, 3 + number * 7 % 17
    return f"{first} + {second} = ?", first + second


def write_problem(number: int) -> tuple[str, int]:
    """A word problem of two steps."""
    first, more, each = 3 + number % 7, 2 + number % 5, 2 + number % 3
    name, thing = NAMES[number % len(NAMES)], THINGS[number % len(THINGS)]
    question = (
        f"{name} has {first} bags with {each} {thing} each and buys {more} more {thing}."
        f" How many {thing} does {name} have? Think step by step, and end with the number."
    )
    return question, first * each + more


TASKS = {"sums": Task(0.6, "Give only the result.", write_sum), "problems": Task(1.0, "", write_problem)}


def write_rows(folder: Path, count: int, task: Task) -> None:
    """The task's rows, as messages with their result, in the keys of each program."""
    lines = []
    for number in range(count):
        question, solution = task.write(number)
        system = [{"role": "system", "content": task.system_prompt}] if task.system_prompt else []
        messages = [*system, {"role": "user", "content": question}]
        lines.append({"prompt": messages, "question": question, "solution": str(solution)})
    soup = [{"messages": line["prompt"], "solution": line["solution"]} for line in lines]
    (folder / "rows").mkdir()
    (folder / "solved.py").write_text(REWARD, encoding="utf-8")
    for file, rows in (("rows/train.jsonl", lines), ("soup.jsonl", soup)):
        (folder / file).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def write_files(folder: Path, model: Path, steps: int, task: Task) -> None:
    """Writes what each program reads."""
    write_rows(folder, steps * PROMPTS, task)
    recipe = {
        "recipe": 1,
        "name": "peers",
        "model": {"model_name_or_path": str(model), "dtype": "float32"},
        "lora": ADAPTER,
        "dataset": {
            "path": "rows/train.jsonl",
            "system_prompt": task.system_prompt or None,
            "prompt": "{{ question }}",
            "columns": {"solution": "{{ solution }}"},
        },
        "rewards": [{"python": "solved.py:reward_fn"}],
        "generation": {"max_completion_length": TOKENS, "temperature": task.temperature},
        "grpo": {"num_generations": GENERATIONS},
        "training": {"prompts_per_step": PROMPTS, "max_steps": steps, "learning_rate": 1e-5},
    }
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    arguments = dict(plan(load(folder / "recipe.yaml")).arguments.GRPOConfig)
    accumulation = PROMPTS * GENERATIONS // OF_TRL
    arguments |= {"per_device_train_batch_size": OF_TRL, "gradient_accumulation_steps": accumulation}
    arguments |= {"steps_per_generation": accumulation, "save_strategy": "steps", "save_steps": steps}
    given = {"model": str(model), "GRPOConfig": arguments, "LoraConfig": ADAPTER}
    (folder / "arguments.json").write_text(json.dumps(given), encoding="utf-8")
    (folder / "script.py").write_text(SCRIPT, encoding="utf-8")
    adapter: dict[str, object] = {
        "use_peft": True,
        "lora_r": 16,
        "lora_alpha": 32,
        "lora_dropout": 0.0,
        "lora_target_modules": "all-linear",
    }
    command: dict[str, object] = {"model_name_or_path": str(model), "dtype": "float32", "dataset_name": "rows"}
    command |= {**arguments, **adapter, "reward_funcs": ["solved.reward_fn"]}
    (folder / "trl.yaml").write_text(yaml.safe_dump(command), encoding="utf-8")
    soup = {
        "base": str(model),
        "task": "grpo",
        "data": {"train": "soup.jsonl", "max_length": TOKENS},
        "training": {
            "epochs": 1,
            "lr": 1e-5,
            "batch_size": OF_TRL,
            "gradient_accumulation_steps": accumulation,
            "num_generations": GENERATIONS,
            "grpo_beta": 0.0,
            "quantization": "none",
            "logging_steps": 1,
            "save_steps": steps,
            "reward_fn": "solved.py",
            "lora": {"r": 16, "alpha": 32, "dropout": 0.0, "target_modules": "all-linear"},
        },
        "output": "soup",
    }
    (folder / "soup.yaml").write_text(yaml.safe_dump(soup), encoding="utf-8")


def read_log(file: Path) -> tuple[list[dict[str, Any]], float | None]:
    """Steps of a trainer_state.json or metrics.jsonl, and the seconds of generation in the last one, if it says so."""
    text = file.read_text(encoding="utf-8")
    events = json.loads(text)["log_history"] if file.suffix == ".json" else map(json.loads, text.splitlines())
    steps = [event for event in events if "step_time" in event]
    return steps, steps[-1].get("seconds/generate")


def train(folder: Path, name: str, number: int, commands: dict[str, tuple[list[str], str]]) -> Training:
    """Trains once. Ends the benchmark if a program fails."""
    command, log = commands[name]
    words = [word.format(number=number) for word in command]
    cost = run(("env", "-C", str(folder), *words))
    files = sorted(folder.glob(log.format(number=number)))
    if cost.exit_code or not files:
        sys.exit(f"{name} ended with {cost.exit_code}, in {folder}: {' '.join(words)}")
    steps, generation_s = read_log(files[-1])
    return Training(cost, steps[-1]["step_time"], generation_s, [step["loss"] for step in steps])


def soup_in(folder: Path) -> str:
    """soup-cli's command, in an environment that also sees the packages of this one."""
    program = peers.soup_of(folder)
    own = Path(sysconfig.get_path("purelib"))
    site = next((folder / "lib").glob("python*/site-packages"))
    (site / "training.pth").write_text(f"{own}\n", encoding="utf-8")
    return program


def table(trainings: Mapping[str, Sequence[Training]], of: str) -> str:
    """A line for each program; differences and ratios are to the program `of`."""
    lines = [
        "| program | a step, s | generation, s | of the script's step | process, s | CPU s | peak, GB | losses |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for name, rounds in trainings.items():
        step, wall, cpu = (
            statistics.median(values)
            for values in zip(*((one.step_s, one.cost.wall_s, one.cost.cpu_s) for one in rounds), strict=True)
        )
        pairs = zip(rounds, trainings[of], strict=True)
        ratio = statistics.median(one.step_s / other.step_s for one, other in pairs)
        known = [one.generation_s for one in rounds if one.generation_s is not None]
        generation = f"{statistics.median(known):.1f}" if known else "-"
        peak = max(one.cost.memory_mb for one in rounds) / 1000
        losses = ", ".join(f"{loss:.6f}" for loss in rounds[-1].losses)
        cells = [name, f"{step:.1f}", generation, f"{ratio:.2f}", f"{wall:.0f}", f"{cpu:.0f}", f"{peak:.1f}", losses]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def write_part(text: str) -> None:
    """Writes the part of a task into the page, in place of the one it had."""
    parts = PAGE.read_text(encoding="utf-8").split("\n## ")[1:] if PAGE.exists() else []
    heading = text.splitlines()[0]
    kept = [f"## {part.strip()}\n" for part in parts if f"## {part}".splitlines()[0] != heading]
    PAGE.write_text("\n".join([HEAD, *sorted([*kept, text])]), encoding="utf-8")


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--task", choices=TASKS, default="sums")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--without", nargs="*", default=(), help="the first words of programs that are left out")
    parser.add_argument("--write", action="store_true", help="write peers_training.md")
    options = parser.parse_args()
    python = sys.executable
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        write_files(folder, options.model.resolve(), options.steps, TASKS[options.task])
        soup = "soup" if "soup-cli" in options.without else soup_in(folder / "soup-environment")
        own = [python, "-m", "grpo_recipes.cli.main", "recipe.yaml", "--allow-code", "here"]
        state = f"checkpoint-{options.steps}/trainer_state.json"
        commands = {
            "grpo-run": ([*own, "--out", "run-{number}"], "run-{number}/metrics.jsonl"),
            SCRIPT_NAME: ([python, "script.py", "script-{number}"], f"script-{{number}}/{state}"),
            "`trl grpo`": (
                [str(Path(python).parent / "trl"), "grpo", "--config", "trl.yaml", "--output_dir", "trl-{number}"],
                f"trl-{{number}}/{state}",
            ),
            peers.SOUP.replace("==", " "): (
                [soup, "--no-audit-log", "--no-telemetry", "train", "-c", "soup.yaml", "-n", "soup-{number}", "--yes"],
                f"soup/soup-{{number}}/{state}",
            ),
        }
        commands = {name: command for name, command in commands.items() if name.split()[0] not in options.without}
        trainings: dict[str, list[Training]] = {name: [] for name in commands}
        for number in range(options.rounds):
            for name in commands:
                trainings[name].append(train(folder, name, number, commands))
                print(name, trainings[name][-1], file=sys.stderr, flush=True)
    cores = len(os.sched_getaffinity(0))
    releases = ", ".join(f"{package} {version(package)}" for package in ("torch", "transformers", "trl"))
    text = f"""## {options.task}

Written by `python benchmarks/peers_training.py --task {options.task} --write`, without a GPU, on {cores} of
{os.cpu_count()} cores, with python {platform.python_version()}, {releases}: medians of {options.rounds} rounds in turn,
{options.steps} steps each.

{table(trainings, SCRIPT_NAME)}
"""
    print(text)
    if options.write:
        write_part(text)


if __name__ == "__main__":
    main()
