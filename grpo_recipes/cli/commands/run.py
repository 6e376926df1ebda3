"""`grpo-run RECIPE`: check, plan, render, launch, and report how it ended. RUNDIR: the plan of an earlier run."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal

import click

from grpo_recipes.cli.accept_option import accept_option
from grpo_recipes.cli.completion import files
from grpo_recipes.cli.launching import (
    Changes,
    Ready,
    allow_code_option,
    ask_trust,
    launched,
    names_a_plan,
    ready_of,
)
from grpo_recipes.cli.resolving import findings_answer, resolved
from grpo_recipes.cli.stack_option import chosen_stack, set_option, strict_option, target_option
from grpo_recipes.cli.view_option import chosen_view, view_options
from grpo_recipes.contract.errors import Refusal
from grpo_recipes.contract.exits import EXIT_DONE, EXIT_NOT_STARTED
from grpo_recipes.contract.findings.finding import has_errors
from grpo_recipes.contract.findings.findings_text import count_text, findings_text
from grpo_recipes.contract.halved import MICRO_BATCH, half_of
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.run_record import amend_record, read_record
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.resolve.resolve import Resolution
from grpo_recipes.resolve.variants.merged_recipe import smoke_plan
from grpo_recipes.stack.stack import Stack
from grpo_recipes.sweep.sweep_file import is_sweep


@click.command()
@click.argument("recipe", metavar="RECIPE|RUNDIR", shell_complete=files)
@set_option
@target_option
@strict_option
@accept_option
@click.option("--validate-only", is_flag=True, help="Stop after the checks; write nothing.")
@click.option("--dry-run", is_flag=True, help="Write the run folder and stop; its launch.sh starts the run.")
@click.option("--smoke", is_flag=True, help="Train two steps on a few prompts, print the proofs, keep no model.")
@click.option(
    "--out",
    metavar="FOLDER",
    shell_complete=files,
    help="Run folder; it must not exist yet. Default: runs/NAME-TIME, runs/NAME-smoke-TIME.",
)
@click.option("--resume", "resuming", is_flag=True, help="Resume the interrupted run of a RUNDIR.")
@click.option(
    "--extend",
    "extending",
    metavar="KEY=VALUE",
    help="Extend a finished RUNDIR, in a new folder.",
)
@click.option(
    "--verify",
    "verifying",
    is_flag=True,
    help="Report which files of a RUNDIR changed since they were written, and stop.",
)
@click.option(
    "--accept-drift", is_flag=True, help="Launch a RUNDIR or plan.json even if it is a different experiment now."
)
@allow_code_option
@view_options
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON: run.json, findings or a folder.")
def run(
    recipe: str,
    overrides: tuple[str, ...],
    target: str | None,
    strict: bool,
    accepted: tuple[str, ...],
    validate_only: bool,
    dry_run: bool,
    smoke: bool,
    out: str | None,
    resuming: bool,
    extending: str | None,
    verifying: bool,
    accept_drift: bool,
    allowed: tuple[str, ...],
    quiet: bool,
    verbose: bool,
    samples: int,
    as_json: bool,
) -> int:
    """Train a recipe (the default command).

    For a run folder or its plan.json, launches exactly that plan in a new folder, after reporting what has changed.
    Exits 0 completed, 1 the trainer failed, 2 nothing was started, 3 a check or guard stopped it, 75 interrupted.

    \b
    grpo-run run recipe.yaml --set training.max_steps=50
    grpo-run run recipe.yaml --samples 2
    grpo-run run runs/addition-20260101-120000 --resume
    """
    of_a_recipe = (overrides, accepted, target, validate_only, dry_run, smoke)
    if is_sweep(recipe):
        if any((*of_a_recipe, out, extending, verifying, accept_drift)):
            raise Refusal.of(f"{recipe} is a sweep, which continues as planned; it only takes --allow-code and --json")
        from grpo_recipes.cli.sweeps.training import go_on

        return go_on(recipe, allowed, as_json=as_json)
    view = chosen_view(quiet, verbose, samples)
    if verifying:
        if any((*of_a_recipe, out, resuming, extending, allowed)):
            raise Refusal.of("--verify only reads a run folder; it only takes --json")
        from grpo_recipes.cli.verify import verify

        return verify(recipe, as_json=as_json)
    if resuming:
        if any((*of_a_recipe, out, extending)):
            raise Refusal.of(
                "--resume continues the plan unchanged",
                fix="it only takes --allow-code, --accept-drift, --json, --samples, -q and -v",
            )
        from grpo_recipes.cli.resume import resume

        return resume(recipe, allowed, accept_drift=accept_drift, as_json=as_json, view=view)
    if extending is not None:
        if any(of_a_recipe):
            raise Refusal.of(
                "--extend changes nothing else; it only takes --out, --allow-code, --accept-drift and --json"
            )
        from grpo_recipes.cli.again import ready_to_extend

        longer = ready_to_extend(recipe, extending, chosen_stack(None), accept_drift=accept_drift)
        return launched(*_made(longer, allowed, out, smoke=False), as_json=as_json, view=view)
    if target is not None and not (validate_only or dry_run):
        raise Refusal.of(
            "--target declares a different machine, but a run needs this machine's stack", fix="add --dry-run"
        )
    changes = Changes(overrides, accepted, strict, accept_drift, begins_anew=out is not None)
    form: Literal["text", "json"] = "json" if as_json else "text"
    ready = _ready(recipe, chosen_stack(target), changes, form, is_alone=validate_only)
    if isinstance(ready, int):
        return ready
    if dry_run:
        folder = _write(_tried(ready.plan, smoke=smoke), out, ready, is_code_pinned=False)
        click.echo(redact(json.dumps({"folder": folder}) if as_json else folder))
        return EXIT_DONE
    plan, folder = _made(ready, allowed, out, smoke=smoke)

    def anew() -> tuple[Plan, str] | None:
        """The run with half the micro-batch, if its recipe says so and memory ran out in its first step."""
        size, other = None if names_a_plan(recipe) else half_of(read_record(folder)), f"{folder}-halved"
        if size is None or os.path.lexists(other):
            return None
        amend_record(folder, {"begun_anew": os.path.abspath(other)})
        why = "out of memory in the first step: restarted with a micro-batch of"
        click.echo(redact(f"{why} {size} instead of {plan.batch.micro_batch} in {other}"), err=True)
        halved = replace(changes, overrides=(*overrides, f"{'.'.join(MICRO_BATCH)}={size}"))
        ready = _ready(recipe, chosen_stack(target), halved, form, is_alone=False)
        return None if isinstance(ready, int) else _made(ready, allowed, other, smoke=smoke)

    return launched(plan, folder, as_json=as_json, view=view, anew=anew)


def _made(ready: Ready, allowed: tuple[str, ...], out: str | None, *, smoke: bool) -> tuple[Plan, str]:
    """The plan to launch, with its code allowed, and its new run folder."""
    from grpo_recipes.lock.completed import with_pinned_code

    plan = with_pinned_code(_tried(ready.plan, smoke=smoke), is_pinned=ready.is_pinned)
    ask_trust(plan, allowed, ready.files, folder=ready.goes_on_from)
    return plan, _write(plan, out, ready, is_code_pinned=True)


def _tried(plan: Plan, *, smoke: bool) -> Plan:
    return smoke_plan(plan) if smoke and not plan.smoke else plan


def _ready(
    recipe: str, stack: Stack, changes: Changes, form: Literal["text", "json"], *, is_alone: bool
) -> Ready | int:
    """What a recipe or a plan launches, or the exit code if nothing is launched. is_alone: only check."""
    if names_a_plan(recipe):
        from grpo_recipes.cli.again import ready_again  # a recipe does not need it

        return ready_again(recipe, stack, changes, form if is_alone else None)
    if changes.accept_drift:
        raise Refusal.of("--accept-drift needs an earlier plan: a run folder, or its plan.json")
    resolution = resolved(recipe, stack, changes.overrides, strict=changes.strict, accepted=changes.accepted)
    if is_alone or (form == "json" and resolution.refused):
        return _answer(resolution, form)
    _talk(resolution)
    return EXIT_NOT_STARTED if resolution.refused else ready_of(resolution)


def _answer(resolution: Resolution, form: Literal["text", "json"]) -> int:
    click.echo(redact(findings_answer(resolution.file, resolution.findings, as_json=form == "json")))
    return EXIT_NOT_STARTED if has_errors(resolution.findings) else EXIT_DONE


def _talk(resolution: Resolution) -> None:
    if resolution.findings:
        click.echo(redact(findings_text(resolution.findings, resolution.file) + "\n"), err=True)
    if resolution.refused:
        click.echo(redact(f"{resolution.file}: {count_text(resolution.findings)}, nothing was started"), err=True)


def _write(plan: Plan, out: str | None, ready: Ready, *, is_code_pinned: bool) -> str:
    from grpo_recipes.engines.catalog import engine_of
    from grpo_recipes.lock.completed import completed
    from grpo_recipes.render.run_folder import write_run_folder

    if out is None:
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        out = os.path.join(ready.beside, f"{plan.name}-{'smoke-' if plan.smoke else ''}{stamp}")
    whole = replace(
        completed(plan, is_pinned=ready.is_pinned, is_code_pinned=is_code_pinned), folder=os.path.abspath(out)
    )
    return write_run_folder(whole, out, ready.recipe_text, engine_of(whole).files(whole))
