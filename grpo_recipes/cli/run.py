"""`grpo-run RECIPE`: check, plan, render, launch, and say what came of it."""

import os
from datetime import UTC, datetime

import click

from grpo_recipes.cli.launching import ask_trust, launched
from grpo_recipes.cli.resolving import resolved
from grpo_recipes.cli.resume import resume
from grpo_recipes.cli.stack_option import chosen_stack, set_option, strict_option, target_option
from grpo_recipes.errors import EXIT_DONE, EXIT_NOT_STARTED, Refusal
from grpo_recipes.finding import has_errors
from grpo_recipes.plan import Plan
from grpo_recipes.report.findings_json import findings_json
from grpo_recipes.report.findings_text import count_text, findings_text
from grpo_recipes.resolve.merged_recipe import merged_recipe_text
from grpo_recipes.resolve.resolve import Resolution, plan_of
from grpo_recipes.resolve.smoke import smoke_plan
from grpo_recipes.trust.redact import redact


@click.command()
@click.argument("recipe")
@set_option
@target_option
@strict_option
@click.option("--validate-only", is_flag=True, help="Stop after the checks; nothing is written.")
@click.option("--dry-run", is_flag=True, help="Write the run folder and stop; launch.sh in it starts the run.")
@click.option("--smoke", is_flag=True, help="Train two steps on a few prompts, print the proofs, keep no model.")
@click.option(
    "--out", metavar="FOLDER", help="Run folder; it must not exist yet. Default: runs/NAME-TIME, runs/NAME-smoke-TIME."
)
@click.option("--resume", "resuming", is_flag=True, help="Go on with an interrupted run; RECIPE is its run folder.")
@click.option("--allow-code", "allowed", metavar="SHA", multiple=True, help="Allow code of the recipe by its sha256.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def run(
    recipe: str,
    overrides: tuple[str, ...],
    target: str | None,
    strict: bool,
    validate_only: bool,
    dry_run: bool,
    smoke: bool,
    out: str | None,
    resuming: bool,
    allowed: tuple[str, ...],
    as_json: bool,
) -> int:
    """Train a recipe (the default command)."""
    if resuming:
        if overrides or target or out or validate_only or dry_run or smoke:
            raise Refusal("--resume goes on with the plan as it is; beside it stand only --allow-code and --json")
        return resume(recipe, allowed, as_json=as_json)
    if target is not None and not (validate_only or dry_run):
        raise Refusal("--target declares another machine; a run needs this one's stack\n  = fix: add --dry-run")
    resolution = resolved(recipe, chosen_stack(target), overrides, strict=strict)
    if validate_only:
        return _answer(resolution, as_json)
    _talk(resolution)
    if resolution.refused or resolution.context is None:
        return EXIT_NOT_STARTED
    plan = smoke_plan(plan_of(resolution)) if smoke else plan_of(resolution)
    if not dry_run:
        ask_trust(plan, allowed)
    folder = _write(plan, out, merged_recipe_text(resolution.context.source))
    if dry_run:
        click.echo(folder)
        return EXIT_DONE
    return launched(folder, as_json=as_json, smoke=smoke)


def _answer(resolution: Resolution, as_json: bool) -> int:
    if as_json:
        click.echo(redact(findings_json({resolution.file: resolution.findings})))
    else:
        text = findings_text(resolution.findings, resolution.file)
        click.echo(redact(f"{text}\n\n" if text else "") + f"{resolution.file}: {count_text(resolution.findings)}")
    return EXIT_NOT_STARTED if has_errors(resolution.findings) else EXIT_DONE


def _talk(resolution: Resolution) -> None:
    if resolution.findings:
        click.echo(redact(findings_text(resolution.findings, resolution.file)) + "\n", err=True)
    if resolution.refused:
        click.echo(f"{resolution.file}: {count_text(resolution.findings)}, nothing was started", err=True)


def _write(plan: Plan, out: str | None, recipe_text: str) -> str:
    from grpo_recipes.render.run_folder import write_run_folder

    if out is None:
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        out = os.path.join("runs", f"{plan.name}-{'smoke-' if plan.smoke else ''}{stamp}")
    return write_run_folder(plan, out, recipe_text)
