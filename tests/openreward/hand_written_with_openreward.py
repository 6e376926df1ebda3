"""A TRL script with OpenRewardSpec as its documentation has it, and the seed of each step; prints its steps."""

import hashlib
import json
import os
import sys
from pathlib import Path

from transformers import TrainerCallback, set_seed
from trl import GRPOConfig, GRPOTrainer
from trl.experimental.openreward import OpenRewardSpec

settings = json.loads(Path(sys.argv[1]).read_text())


class SeedEachStep(TrainerCallback):
    def on_step_begin(self, args, state, control, **kwargs):
        set_seed(int(hashlib.sha256(f"{args.seed} {state.global_step} 0".encode()).hexdigest()[:8], 16))


spec = OpenRewardSpec(settings["target"])
trainer = GRPOTrainer(
    model=settings["model"],
    reward_funcs=spec.reward_funcs,
    args=GRPOConfig(output_dir="out", model_init_kwargs={"dtype": "float32"}, disable_tqdm=True, **settings["grpo"]),
    train_dataset=spec.train_dataset,
    environment_factory=spec.environment_factory,
    callbacks=[SeedEachStep()],
)
trainer.train()
print("STEPS", json.dumps([entry for entry in trainer.state.log_history if "loss" in entry]))
# Open sessions of the server keep their thread.
sys.stdout.flush()
os._exit(0)
