"""`python plain_trl.py PLAN FOLDER [STEPS]`: runs a plan's training with TRL alone and prints timings as JSON.

step_s is the time of the fastest step. The device is synchronized at each measurement, and each step has grpo-run's
seed, so that the completions are the same.
"""

import hashlib
import json
import statistics
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import TrainerCallback, set_seed
from trl import GRPOConfig, GRPOTrainer

from grpo_recipes.rewards.regex_match import regex_match

FIRST = 2


def now() -> float:
    """Returns the time in seconds once the device has finished its work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


class Clock(TrainerCallback):
    """Times each step and its generation, and sets each step's seed."""

    def __init__(self) -> None:
        self.ends: list[float] = []
        self.generating: list[float] = []

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Seeds the step and starts its clock, before its completions are generated."""
        words = f"{args.seed} {state.global_step} {args.process_index}"
        set_seed(int.from_bytes(hashlib.sha256(words.encode()).digest()[:4], "big"))
        self.generating.append(0.0)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Stops the step's clock, after the optimizer's step."""
        self.ends.append(now())

    def time(self, trainer: Any) -> None:
        """Times a method of the trainer."""
        generate = trainer._generate

        def timed(*given: Any, **named: Any) -> Any:
            began = now()
            made = generate(*given, **named)
            self.generating[-1] += now() - began
            return made

        trainer._generate = timed


def main() -> None:
    plan, folder = json.loads(Path(sys.argv[1]).read_text()), sys.argv[2]
    steps = int(sys.argv[3]) if sys.argv[3:] else plan["arguments"]["GRPOConfig"]["max_steps"]
    plan["arguments"]["GRPOConfig"]["max_steps"] = steps
    arguments = plan["arguments"]
    pattern = plan["rewards"][0]["kwargs"]["pattern"]

    def reward(completions: list[Any], **kwargs: Any) -> list[float | None]:
        return regex_match(completions, pattern=pattern)

    rows = load_dataset("json", data_files=plan["data"]["path"], split="train", cache_dir=f"{folder}/cache")
    rows = rows.map(lambda row: {"prompt": [{"role": "user", "content": row["question"]}]}, remove_columns="question")
    set_seed(arguments["GRPOConfig"]["seed"])
    clock = Clock()
    trainer = GRPOTrainer(
        model=plan["model"]["path"],
        reward_funcs=reward,
        args=GRPOConfig(folder, model_init_kwargs=arguments["model_init_kwargs"], **arguments["GRPOConfig"]),
        train_dataset=rows,
        peft_config=LoraConfig(**arguments["LoraConfig"]) if arguments["LoraConfig"] else None,
        callbacks=[clock],
    )
    clock.time(trainer)
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    found = {"losses": [entry["loss"] for entry in logged], "gradient_norms": [entry["grad_norm"] for entry in logged]}
    if steps > FIRST:
        steps_s = [after - before for before, after in pairwise(clock.ends)][FIRST - 1 :]
        generations_s = clock.generating[FIRST:]
        updates_s = [step - generation for step, generation in zip(steps_s, generations_s, strict=True)]
        medians = {"generation_s": statistics.median(generations_s), "update_s": statistics.median(updates_s)}
        found |= {"step_s": min(steps_s), "median_step_s": statistics.median(steps_s), **medians}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
