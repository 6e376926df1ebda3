"""The run of a run folder with the adapter as PEFT loads it and TRL takes it: `in_plain_peft.py FOLDER ADAPTER`."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path


def trained_by_hand(python: Path, folder: Path, adapter: Path, place: Path) -> "subprocess.CompletedProcess[str]":
    """Trains the plan of a run folder once more, in a copy at `place`, from an adapter that TRL is handed."""
    shutil.copytree(folder / "worker", place / "worker")
    shutil.copy(folder / "plan.json", place)
    return subprocess.run(
        [str(python), "-Xwarm", str(Path(__file__)), str(place), str(adapter)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )


def main(folder: Path, adapter: Path) -> int:
    """Trains with TRL's own way of going on with an adapter."""
    plan = json.loads((folder / "plan.json").read_text())
    plan["ancestor"] = None  # the worker has nothing to go on with
    (folder / "plan.json").write_text(json.dumps(plan))
    sys.path.insert(0, str(folder / "worker"))
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    from grpo_recipes.worker.model import build_trainer as building
    from grpo_recipes.worker.trainer.observed import ObservedTrainer

    def handed_over(model: str, args: object, peft_config: object, **more: object) -> ObservedTrainer:
        base = AutoModelForCausalLM.from_pretrained(model, dtype="float32")
        args.model_init_kwargs = None
        return ObservedTrainer(model=PeftModel.from_pretrained(base, adapter, is_trainable=True), args=args, **more)

    building.ObservedTrainer = handed_over
    from grpo_recipes.worker.run import train

    return train(folder, resume=False)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
