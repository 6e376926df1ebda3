"""A person starts the run with one command per machine; the machines share only the folder."""

import sys
from collections.abc import Iterator
from typing import TextIO

from grpo_recipes.contract.exits import EXIT_DONE
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.engines.base import Engine, Prepare
from grpo_recipes.launch.local import lock_for_launch
from grpo_recipes.launch.progress import View
from grpo_recipes.render.job import job_of, machine_commands


class EngineByHand(Engine):
    """Prepares the folder and prints the commands; it does not observe the run."""

    def start(self, plan: Plan, folder: str, *, resume: bool, echo: TextIO, view: View, prepare: Prepare) -> int:
        """Locks and prepares the folder, and starts nothing."""
        if resume:
            with lock_for_launch(folder):
                for line in prepare():
                    print(redact(line), file=echo, flush=True)
        return EXIT_DONE

    def commands(self, plan: Plan, folder: str, *, resume: bool) -> list[str]:
        """The command of each machine, the first one first and a vLLM server's last."""
        return machine_commands(job_of(plan), folder, sys.executable, resume=resume)

    def advice(self, plan: Plan, folder: str) -> list[str]:
        """When and where to type the commands."""
        job = job_of(plan)
        address = [
            "ADDRESS is the name or address of the first machine, as the others reach it",
            "  (launch.main_process_ip writes it into the commands)",
        ]
        return [
            *(address if job.address is None else []),
            f"one command for each of {job.all_nodes} machines, within ten minutes of each other; all of them need the"
            f" run folder and {sys.executable} at these paths, for example on a shared disk",
        ]


ENGINE = EngineByHand()


def local_files(plan: Plan) -> list[str]:
    """Local files and folders that the run reads in place, since the run folder has no copy of them.

    Absolute paths.
    """

    def places() -> Iterator[str | None]:
        yield plan.model.path if plan.model.source == "folder" else None
        yield plan.ancestor.named if plan.ancestor is not None and plan.ancestor.named.startswith("/") else None
        yield plan.extends.path if plan.extends is not None and plan.extends.source == "folder" else None
        yield plan.tokenizer.chat_template_path
        held_out = () if plan.evaluation is None else plan.evaluation.sets
        for data in (*plan.training_data.values(), *(of_set.data for of_set in held_out)):
            yield data.path if data.source in ("file", "folder") else None
        for reward in plan.rewards:
            yield reward.path if reward.kind == "model" else None

    return list(dict.fromkeys(path for path in places() if path is not None))
