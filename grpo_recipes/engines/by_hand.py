"""A person starts the run: one command on each of its machines, which share nothing but the folder."""

import sys
from typing import TextIO

from grpo_recipes.contract.exits import EXIT_DONE
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.engines.base import Engine, Prepare
from grpo_recipes.launch.local import taken
from grpo_recipes.launch.progress import View
from grpo_recipes.render.job import job_of, machine_commands


class EngineByHand(Engine):
    """Prepares the folder and says what to type; nobody here knows how the run goes on."""

    def start(self, plan: Plan, folder: str, *, resume: bool, echo: TextIO, view: View, prepare: Prepare) -> int:
        """Prepares the folder while nobody else may use it, and starts nothing."""
        if resume:
            with taken(folder):
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
            "ADDRESS is the name or address under which the others reach the first machine",
            "  (launch.main_process_ip writes it into the commands)",
        ]
        return [
            *(address if job.address is None else []),
            f"one command for each of {job.all_nodes} machines, within ten minutes of each other; all of them need the"
            f" run folder and {sys.executable} at these paths, for example on a shared disk",
        ]


ENGINE = EngineByHand()
