"""Finds the run folder for a command that needs a trained model, and prints the answer of the model's process."""

import base64
import json
import os
import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from grpo_recipes.cli.launching import ask_trust, names_a_plan
from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.findings.finding import of_record
from grpo_recipes.contract.findings.findings_text import bare_text
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.prompt_shape import LARGEST_IMAGE
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.launch.display import busy
from grpo_recipes.launch.local import is_running, refuse_strange_entries
from grpo_recipes.lock.read_lock import Lock, read_lock, refuse_damaged

FINAL = "final"


def read_trained_run(
    run: str, allowed: tuple[str, ...], *, with_rewards: bool, with_tools: bool = False
) -> tuple[Plan, str]:
    """The plan and the absolute folder of a run with a trained model.

    allowed: by --allow-code. The model's code needs consent as in a run; code of rewards, tools and an environment
    needs it if it is called. Raises Refusal if the run does not exist, its plan was changed, or its code is not
    allowed.
    """
    lock = read_lock(run) if names_a_plan(run) else None
    if lock is None or not lock.is_run_folder:
        raise Refusal.of(
            f"{run} is not a run folder", because="it has no launch.sh", fix="name the folder of a run, as in runs/"
        )
    refuse_strange_entries(lock.folder)
    if not os.path.isdir(os.path.join(lock.folder, FINAL)):
        raise _no_model_refusal(run, lock)
    with busy("checking the trained model"):
        damaged = refuse_damaged(lock, FINAL, own_model=_own_model(lock.plan))
    for line in damaged:
        click.echo(redact(line), err=True)
    called = replace(lock.plan, rollout=None)  # not called after training
    if not (with_tools and with_rewards):
        called = replace(called, environment_class=None, environment_classes={})  # not needed without tools
    called = called if with_tools else replace(called, tools=())
    ask_trust(called if with_rewards else replace(called, rewards=()), allowed)
    return lock.plan, lock.folder


def image_part(file: str) -> dict[str, str]:
    """A file as a part of a message, with its bytes in base64. Raises Refusal."""
    try:
        if not os.path.isfile(file) and os.path.exists(file):
            raise OSError("it is not a file")
        if os.path.isfile(file) and (size := os.path.getsize(file)) > LARGEST_IMAGE:
            raise OSError(f"it has {size:,} bytes, and the most is {LARGEST_IMAGE:,}")
        with open(file, "rb") as opened:
            return {"type": "image", "image": base64.b64encode(opened.read()).decode()}
    except (OSError, ValueError) as problem:
        because = getattr(problem, "strerror", None) or str(problem)
        raise Refusal.of(f"the image {file} cannot be read", because=because, fix="the path of an image") from None


def print_answer(answer: dict[str, Any], what: str, text: Callable[[dict[str, Any]], str], *, as_json: bool) -> int:
    """Prints the answer of a part of the worker, and returns the exit code. text: formats its output for a person."""
    shown = answer["shown"]
    if as_json:
        click.echo(redact(json.dumps({what: 1, **(shown or {}), "findings": answer["findings"]}, indent=2)))
    elif shown is None:
        click.echo(redact(f"error: {bare_text(map(of_record, answer['findings']))}"), err=True)
    else:
        click.echo(redact(text(shown)))
    return int(answer["exit_code"])


def _own_model(plan: Plan) -> str | None:
    """The run folder that holds the base model of an adapter, None if it is the planned model."""
    if plan.arguments.LoraConfig is None or not plan.trains_a_copy:
        return None
    return "extended_model" if plan.tokenizer.add_tokens else "merged_model"


def _no_model_refusal(run: str, lock: Lock) -> Refusal:
    status = None if lock.record is None else lock.record.status
    because = f"its run.json says {status}" if status is not None else "it was planned, but never started"
    fix = f"grpo-run {shlex.quote(run)}{'' if status == 'completed' else ' --resume'}"
    if status in ("failed", "stopped"):
        fix = f"fix the cause, and train the recipe again; {fix} continues with the run's own copy of your code"
    if lock.plan.smoke:
        because, fix = "a run with --smoke keeps none", "train its recipe without --smoke"
    elif status == "running" and is_running(lock.folder):
        because, fix = "it is still training", "wait until it ends"
    return Refusal.of(f"{run} has no trained model", because=because, fix=fix)
