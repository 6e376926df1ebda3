"""The run folder of a command that needs its trained model."""

import os
import shlex
from dataclasses import replace

import click

from grpo_recipes.cli.launching import ask_trust, names_a_plan, refuse_strange_entries
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.errors import Refusal
from grpo_recipes.lock.read_lock import PLAN_FILE, Lock, read_lock
from grpo_recipes.lock.unchanged import refuse_damaged

FINAL = "final"


def trained_run(
    place: str, allowed: tuple[str, ...], *, with_rewards: bool, with_tools: bool = False
) -> tuple[Plan, str]:
    """The plan and the absolute folder of a run that has trained its model.

    allowed: by --allow-code; code of the model is asked for as a run does, that of rewards, tools and an
    environment where they are called.
    Raises Refusal where there is no such run, its plan was changed, or code is not allowed.
    """
    _refuse_what_is_beside(place)
    lock = read_lock(place)
    if not lock.is_run_folder:
        raise Refusal.of(
            f"{place} is no run folder", because="there is no launch.sh in it", fix="name the folder of a run"
        )
    refuse_strange_entries(lock.folder)
    if not os.path.isdir(os.path.join(lock.folder, FINAL)):
        raise _untrained(place, lock)
    for line in refuse_damaged(lock, FINAL, own_model=_own_model(lock.plan)):
        click.echo(redact(line), err=True)
    called = replace(lock.plan, rollout=None)  # nothing calls it after the training
    if not (with_tools and with_rewards):
        called = replace(called, environment_class=None)  # which has a row of its own
    called = called if with_tools else replace(called, tools=())
    ask_trust(called if with_rewards else replace(called, rewards=()), allowed)
    return lock.plan, lock.folder


def _own_model(plan: Plan) -> str | None:
    """The folder of a run with the model beside which its adapter was trained, None where that is the planned one."""
    if plan.arguments.LoraConfig is None or not plan.trains_a_copy:
        return None
    return "extended_model" if plan.tokenizer.add_tokens else "merged_model"


def _refuse_what_is_beside(place: str) -> None:
    """Raises Refusal for a recipe, and for a folder within a run."""
    if os.path.isfile(place) and not names_a_plan(place):
        raise Refusal.of(
            f"{place} is no run folder",
            because="it is a file, and what was trained is in the folder of a run",
            fix="name the folder of a run; without --out they are in runs/",
        )
    above = os.path.dirname(os.path.abspath(place))
    if not os.path.isdir(place) or os.path.isfile(os.path.join(place, PLAN_FILE)):
        return
    for run in (above, os.path.dirname(above)):
        if os.path.isfile(os.path.join(run, PLAN_FILE)):
            raise Refusal.of(
                f"{place} is no run folder",
                because=f"it is a part of one, and the trained model is in {FINAL}/ of that",
                fix=f"name the run: {shlex.quote(run)}",
            )


def _untrained(place: str, lock: Lock) -> Refusal:
    said = f"{place} has no trained model"
    if lock.plan.smoke:
        return Refusal.of(said, because="a run with --smoke keeps none", fix="train its recipe whole")
    from grpo_recipes.launch.local import is_running

    status = None if lock.record is None else lock.record.status
    if status is None:
        return Refusal.of(
            said, because="it was planned, and not started", fix=f"bash {shlex.quote(lock.folder)}/launch.sh"
        )
    if status == "running" and is_running(lock.folder):
        return Refusal.of(said, because="it is being trained now", fix="wait for its end")
    because = f"its run.json says {status}, and there is no {FINAL}/ in it"
    is_open = status in ("interrupted", "running", "failed", "stopped")
    return Refusal.of(said, because=because, fix=f"grpo-run {shlex.quote(place)}{' --resume' if is_open else ''}")
