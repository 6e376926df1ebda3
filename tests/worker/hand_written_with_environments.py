"""A TRL script with two environments as one writes it by hand; prints its steps. Its settings are a JSON file."""

import hashlib
import json
import os
import sys
from pathlib import Path

from datasets import load_dataset
from transformers import TrainerCallback, set_seed
from trl import GRPOConfig, GRPOTrainer

settings = json.loads(Path(sys.argv[1]).read_text())
sys.path.insert(0, str(Path.cwd()))
from mine import Adds, Fails, even  # noqa: E402


class SeedEachStep(TrainerCallback):
    def on_step_begin(self, args, state, control, **kwargs):
        text = f"{args.seed} {state.global_step} {trainer.accelerator.process_index}"
        set_seed(int(hashlib.sha256(text.encode()).hexdigest()[:8], 16))


rows = load_dataset("json", data_files=settings["rows"], split="train", cache_dir="cache")
rows = rows.map(
    lambda row: {
        "prompt": [{"role": "user", "content": row["question"]}],
        "solution": row["answer"],
        "environment": row["kind"],
    },
    keep_in_memory=True,
)
trainer = GRPOTrainer(
    model=settings["model"],
    reward_funcs=even,
    args=GRPOConfig(output_dir="out", model_init_kwargs={"dtype": "float32"}, disable_tqdm=True, **settings["grpo"]),
    train_dataset=rows,
    environment_factory={"sums": Adds, "faults": Fails},
    callbacks=[SeedEachStep()] if settings["is_seeded"] else [],
)
trainer.train()
if trainer.is_world_process_zero():
    print("STEPS", json.dumps([entry for entry in trainer.state.log_history if "loss" in entry]))
# Two processes that end beside each other were seen to abort in a thread of torch.
sys.stdout.flush()
os._exit(0)
