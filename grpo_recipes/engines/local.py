"""Starts the processes of the run on this machine, with launch.sh."""

import os
from typing import TextIO

from grpo_recipes.contract.plan import Plan
from grpo_recipes.engines.base import Engine, Prepare
from grpo_recipes.launch.local import launch
from grpo_recipes.launch.progress import View
from grpo_recipes.stack.gpus import visible_gpus

_VISIBLE = "CUDA_VISIBLE_DEVICES"


class LocalEngine(Engine):
    """Runs launch.sh here. A second start of a folder is refused by its lock, so there is nothing to follow."""

    def start(self, plan: Plan, folder: str, *, resume: bool, echo: TextIO, view: View, prepare: Prepare) -> int:
        """Trains the run folder to its end."""
        return launch(folder, resume=resume, echo=echo, view=view, prepare=prepare)

    def shares(self, plan: Plan) -> list[dict[str, str]]:
        """An environment for each run that fits on the visible GPUs at once, with separate GPUs; one on a CPU."""
        server = () if plan.vllm is None or plan.vllm.server is None else plan.vllm.server.gpus
        trainer = plan.world.num_processes if plan.world.device == "cuda" else 0
        each = max(trainer, 1 + max(server, default=-1))
        count = len(visible_gpus() or ())
        if each == 0 or count < 2 * each:
            return [{}]
        listed = os.environ.get(_VISIBLE)
        names = list(map(str, range(count))) if listed is None else [name.strip() for name in listed.split(",")]
        starts = range(0, count - each + 1, each)
        return [{_VISIBLE: ",".join(names[start : start + each])} for start in starts]


ENGINE = LocalEngine()
