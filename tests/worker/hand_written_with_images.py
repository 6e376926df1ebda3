"""Trains on images as a hand-written TRL script does; prints losses and rewards. Its settings are a JSON file."""

import hashlib
import json
import os
import sys
from pathlib import Path

from datasets import Image, load_dataset
from datasets import Sequence as ListOf
from peft import LoraConfig
from transformers import AutoModelForImageTextToText, AutoProcessor, TrainerCallback, set_seed
from trl import GRPOConfig, GRPOTrainer


def even(completions, images, **kwargs):
    texts = [completion[0]["content"] for completion in completions]
    return [sum(ord(letter) % 2 for letter in text) / max(len(text), 1) for text in texts]


class SeedEachStep(TrainerCallback):
    def on_step_begin(self, args, state, control, **kwargs):
        text = f"{args.seed} {state.global_step} {trainer.accelerator.process_index}"
        set_seed(int(hashlib.sha256(text.encode()).hexdigest()[:8], 16))


settings = json.loads(Path(sys.argv[1]).read_text())
beside = Path(settings["rows"]).parent
rows = load_dataset("json", data_files=settings["rows"], split="train", cache_dir=settings["cache"])
rows = rows.map(
    lambda row: {
        "prompt": [{"role": "user", "content": row["question"]}],
        "images": [str(beside / name) for name in (row["picture"] if settings["several"] else [row["picture"]])],
    },
    remove_columns=["picture"],
    keep_in_memory=True,
).cast_column("images", ListOf(Image()))
for run in settings["runs"]:
    # TRL seeds before it loads a model by name, and Qwen3.5 draws numbers in its constructor: an adapter then does not
    # start from the seed's first numbers.
    model = AutoModelForImageTextToText.from_pretrained(settings["model"], **{settings["dtype"]: "float32"})
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=even,
        args=GRPOConfig(
            output_dir=settings["cache"],
            disable_tqdm=True,
            **run["grpo"],
        ),
        train_dataset=rows,
        processing_class=AutoProcessor.from_pretrained(settings["model"], padding_side="left"),
        callbacks=[SeedEachStep()],
        peft_config=LoraConfig(**run["lora"]) if run["lora"] else None,
    )
    trainer.train()
    steps = [entry for entry in trainer.state.log_history if "loss" in entry]
    if trainer.is_world_process_zero():
        print("LOSSES", json.dumps([[entry["loss"], entry["grad_norm"], entry["reward"]] for entry in steps]))
# Two processes that ended at the same time sometimes aborted in a torch thread.
sys.stdout.flush()
os._exit(0)
