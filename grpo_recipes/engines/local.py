"""The processes of the run are started on this machine, by launch.sh."""

from typing import NoReturn, TextIO

from grpo_recipes.contract.plan import Plan
from grpo_recipes.engines.base import Prepare
from grpo_recipes.errors import Refusal
from grpo_recipes.launch.local import launch


def files(plan: Plan) -> dict[str, str]:
    """None: launch.sh is in each run folder."""
    return {}


def start(plan: Plan, folder: str, *, resume: bool, echo: TextIO, prepare: Prepare) -> int:
    """Trains the run folder to its end."""
    return launch(folder, resume=resume, echo=echo, prepare=prepare)


def follow(folder: str, *, echo: TextIO) -> NoReturn:
    """Raises Refusal: a run of this machine is shown by the command that started it."""
    raise Refusal.of(f"{folder}: a run of this machine cannot be followed", fix="its train.log and metrics.jsonl grow")


def is_active(folder: str) -> bool:
    """False: nothing of it can be followed; a folder that is being trained refuses another start by its lock."""
    return False


def commands(plan: Plan, folder: str, *, resume: bool) -> list[str]:
    """None."""
    return []
