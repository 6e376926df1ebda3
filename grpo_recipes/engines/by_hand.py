"""A person starts the run: one command on each of its machines, which share nothing but the folder."""

import sys
from typing import NoReturn, TextIO

from grpo_recipes.contract.errors import Refusal
from grpo_recipes.contract.exits import EXIT_DONE
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.engines.base import Prepare
from grpo_recipes.launch.local import taken
from grpo_recipes.launch.progress import View
from grpo_recipes.render.job import job_of, machine_commands


def files(plan: Plan) -> dict[str, str]:
    """None: the commands are printed."""
    return {}


def start(plan: Plan, folder: str, *, resume: bool, echo: TextIO, view: View, prepare: Prepare) -> int:
    """Prepares the folder while nobody else may use it, and starts nothing."""
    if resume:
        with taken(folder):
            for line in prepare():
                print(redact(line), file=echo, flush=True)
    return EXIT_DONE


def follow(folder: str, *, echo: TextIO, view: View) -> NoReturn:
    """Raises Refusal: nothing here knows of machines that a person started."""
    raise Refusal.of(f"{folder}: its machines were started by hand", fix="train.log on the first of them")


def is_active(folder: str) -> bool:
    """False: nobody here knows."""
    return False


def shares(plan: Plan) -> list[dict[str, str]]:
    """None: a person starts each run."""
    return []


def commands(plan: Plan, folder: str, *, resume: bool) -> list[str]:
    """The command of each machine, the first one first and a vLLM server's last."""
    return machine_commands(job_of(plan), folder, sys.executable, resume=resume)
