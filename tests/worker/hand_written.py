"""A TRL script as one writes it by hand; prints losses and rewards. Its settings are a JSON file.

Of format 1 of the recipe it has the seed of each step, which TRL has not.
"""

import hashlib
import json
import random
import re
import sys
from pathlib import Path

from datasets import load_dataset
from peft import LoraConfig
from transformers import BitsAndBytesConfig, TrainerCallback, set_seed
from trl import GRPOConfig, GRPOTrainer


def digits(completions, **kwargs):
    random.random()  # a reward that draws, as some do
    return [float(re.search(r"\d\d", completion[0]["content"]) is not None) for completion in completions]


class SeedEachStep(TrainerCallback):
    def on_step_begin(self, args, state, control, **kwargs):
        set_seed(int(hashlib.sha256(f"{args.seed} {state.global_step} 0".encode()).hexdigest()[:8], 16))


settings = json.loads(Path(sys.argv[1]).read_text())
rows = load_dataset("json", data_files=settings["rows"], split="train", cache_dir=settings["cache"])
rows = rows.map(
    lambda row: {"prompt": [{"role": "user", "content": row["question"]}], "solution": row["answer"]},
    keep_in_memory=True,
)
for run in settings["runs"]:
    trainer = GRPOTrainer(
        model=settings["model"],
        reward_funcs=digits,
        args=GRPOConfig(
            output_dir=settings["cache"],
            model_init_kwargs={"dtype": "float32"},
            disable_tqdm=True,
            **run["grpo"],
        ),
        train_dataset=rows,
        callbacks=[SeedEachStep()],
        peft_config=LoraConfig(**run["lora"]) if run["lora"] else None,
        quantization_config=BitsAndBytesConfig(**run["nf4"]) if run["nf4"] else None,
    )
    trainer.train()
    steps = [entry for entry in trainer.state.log_history if "loss" in entry]
    print("LOSSES", json.dumps([[entry["loss"], entry["grad_norm"], entry["reward"]] for entry in steps]))
