"""Weights & Biases. Its own variables count: WANDB_PROJECT, WANDB_MODE, WANDB_ENTITY, WANDB_DIR."""

import os
from collections.abc import Mapping

from grpo_recipes.worker.trackers.about import About


class Wandb:
    """The run that wandb has open, which TRL's tables of completions go to as well."""

    def begin(self, about: About, identity: str | None) -> str:
        import wandb

        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", about.project),
            name=about.name,
            id=identity,
            resume=None if identity is None else "allow",
            config={"run_folder": about.folder.name, "plan": dict(about.plan)},
            allow_val_change=True,
        )
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")
        return str(self._run.id)

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        self._run.log({"step": step, **figures})

    def end(self, status: str) -> None:
        self._run.finish(exit_code=int(status == "failed"))
