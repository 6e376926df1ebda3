"""`grpo-run RUNDIR` and `grpo-run plan.json`: launch exactly that plan, after reporting what has changed."""

import os
from dataclasses import dataclass, replace

import click

from grpo_recipes.cli.launching import Ready, names_a_plan, start_new_run
from grpo_recipes.cli.options import RunOptions, choose_stack
from grpo_recipes.cli.resolving import apply_options
from grpo_recipes.compare.drift import DriftLine, changes_the_experiment, drift
from grpo_recipes.contract.exits import EXIT_DONE, EXIT_NOT_STARTED, Refusal
from grpo_recipes.contract.findings.findings_text import findings_text
from grpo_recipes.contract.host.engines import in_an_image
from grpo_recipes.contract.integrity.checkpoints import step_of
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.launch.display import busy
from grpo_recipes.launch.local import is_running, refuse_strange_entries
from grpo_recipes.launch.progress import View
from grpo_recipes.lock.extended_run import EPISODES, LENGTHS, extend_plan, last_checkpoint, parts_that_restart
from grpo_recipes.lock.read_lock import Lock, find_places, read_lock, refuse_changed
from grpo_recipes.lock.replanned import resolve_again, same_but_now
from grpo_recipes.report.diff_text import drift_json, drift_text
from grpo_recipes.resolve.resolve import Resolution, plan_of
from grpo_recipes.resolve.variants.merged_recipe import merged_recipe_text, smoke_plan
from grpo_recipes.stack.stack import Stack, from_json_value


@dataclass(frozen=True, slots=True)
class Again:
    """A plan resolved again. plan, recipe_text: None if the recipe is now refused. lines: the drift."""

    lock: Lock
    plan: Plan | None
    recipe_text: str | None
    lines: tuple[DriftLine, ...]
    resolution: Resolution

    @property
    def text(self) -> str:
        """The drift, and the errors of the plan on this stack."""
        errors = [finding for finding in self.resolution.findings if finding.severity == "error"]
        refused = f"\n\n{findings_text(errors, self.resolution.file)}" if errors else ""
        return redact(drift_text(short_path(self.lock), self.lines) + refused)

    @property
    def json(self) -> str:
        """The drift for programs."""
        return drift_json(short_path(self.lock), self.lines)


def stack_of(plan: Plan, target: str | None = None) -> Stack:
    """The stack to compare a plan with: this machine's, or the planned one of an image, which is compared inside it.

    Raises Refusal for an unreadable target.
    """
    if target is None and in_an_image(plan.job):
        return from_json_value(plan.stack)
    return choose_stack(target, trains=True)


def short_path(lock: Lock) -> str:
    """The plan's path as a user would write it."""
    short = os.path.relpath(lock.path)
    return lock.path if short.startswith("..") else short


def train_again(path: str, options: RunOptions, view: View) -> int:
    """Launches the plan of a run folder, or a plan, in a new folder, after printing its drift; returns the exit code.

    Raises Refusal as read_lock, plan_again and plan_to_launch do, and for a run that has not ended.
    """
    lock = read_lock(path)
    again = plan_again(lock, stack_of(lock.plan, options.target), options)
    if options.validate_only:
        click.echo(redact(again.json if options.as_json else again.text))
        is_changed = again.plan is None or (changes_the_experiment(again.lines) and not options.accept_drift)
        return EXIT_NOT_STARTED if is_changed else EXIT_DONE
    say(again)
    plan = plan_to_launch(again, options)
    if options.out is None:
        _refuse_unfinished(lock)
    beside = os.path.dirname(lock.folder) if lock.is_run_folder else "runs"
    return start_new_run(Ready(plan, str(again.recipe_text), beside, is_pinned=True), options, view)


def extend(folder: str, words: str, asked: RunOptions, view: View) -> int:
    """Extends a finished run in a new folder, after printing which values start over; returns the exit code.

    words: KEY=VALUE. Raises Refusal as read_lock, plan_again and plan_to_launch do, and for a run that cannot be
    extended.
    """
    if asked.is_of_a_recipe:
        raise Refusal.of("--extend changes nothing else; it only takes --out, --allow-code, --accept-drift and --json")
    if not names_a_plan(folder):
        raise Refusal.of(
            f"{folder} is a recipe, but --extend needs a run folder", fix="grpo-run RUNDIR --extend KEY=VALUE"
        )
    lock = read_lock(folder)
    refuse_strange_entries(lock.folder)
    if is_running(lock.folder):
        raise Refusal.of(
            f"{lock.folder}: only a finished run can be extended",
            because="it is still training",
            fix="wait until it ends",
        )
    checkpoint = last_checkpoint(lock, words)
    asked = asked._replace(overrides=(words,), strict=False)
    again = plan_again(lock, stack_of(lock.plan), asked)
    again = replace(again, lines=tuple(line for line in again.lines if line.what not in (*LENGTHS, EPISODES)))
    say(again)
    plan = extend_plan(lock, plan_to_launch(again, asked), checkpoint)
    lines = [f"continues from {checkpoint.folder}, with its optimizer, its schedule and its position in the data"]
    for line in [*lines, *parts_that_restart(plan, step_of(checkpoint.folder))]:
        click.echo(redact(line), err=True)
    ready = Ready(plan, str(again.recipe_text), os.path.dirname(lock.folder), True, continues_from=lock.folder)
    return start_new_run(ready, asked, view)


def plan_again(lock: Lock, stack: Stack, options: RunOptions) -> Again:
    """The plan resolved on this stack with the present files, and its drift.

    Raises Refusal for a plan that was changed or has no recipe.
    """
    for line in refuse_changed(lock):
        click.echo(redact(line), err=True)
    with busy("comparing the plan with the current files"):
        places = find_places(lock)
        resolution = resolve_again(lock, places, stack, options.overrides)
        resolution = apply_options(resolution, strict=options.strict, accepted=(*lock.plan.accepted, *options.accepted))
        if resolution.refused or resolution.context is None:
            return Again(lock, None, None, tuple(drift(lock, None, places)), resolution)
        made = plan_of(resolution)
        is_changed = bool(options.overrides)
        new = same_but_now(
            lock,
            smoke_plan(made) if lock.plan.smoke else made,
            is_changed=is_changed,
            accept_drift=options.accept_drift,
        )
        text = merged_recipe_text(resolution.context.source)
        return Again(lock, new, text, tuple(drift(lock, new, places)), resolution)


def plan_to_launch(again: Again, options: RunOptions) -> Plan:
    """The plan to launch. Raises Refusal if it cannot run here, or is a different experiment that was not accepted."""
    where = short_path(again.lock)
    if again.plan is None:
        raise Refusal.of(f"{where}: its recipe is refused here, nothing was started")
    if changes_the_experiment(again.lines) and not options.accept_drift:
        changed = [line.what for line in again.lines if line.state == "differs" and line.kind == "experiment"]
        raise Refusal.of(
            f"{where}: this would be a different experiment, nothing was started",
            because=f"{', '.join(changed)} {'differs' if len(changed) == 1 else 'differ'} from the plan",
            fix="restore what was planned, or --accept-drift",
        )
    return again.plan


def _refuse_unfinished(lock: Lock) -> None:
    """Raises Refusal for a run that was interrupted."""
    status = None if lock.record is None else lock.record.status
    if status not in ("interrupted", "running"):
        return
    is_live = is_running(lock.folder)
    because = "it is still training" if is_live else f"its run.json says {status}"
    fix = "--resume continues it, " if not is_live else ""
    raise Refusal.of(
        f"{lock.folder}: the run did not end",
        because=because,
        fix=f"{fix}--out FOLDER trains the same plan from the start",
    )


def say(again: Again) -> None:
    """Prints the drift on stderr, before the launch."""
    click.echo(redact(f"{again.text}\n"), err=True)
