"""`grpo-run RECIPE`: check, plan, render, launch, and report how it ended. RUNDIR: launch the plan of an earlier
run."""

import os
from typing import TYPE_CHECKING, Any

import click

from grpo_recipes.cli.completion import files
from grpo_recipes.cli.launching import Ready, allow_code_option, create_run, names_a_plan, prepare_run, start_new_run
from grpo_recipes.cli.options import RunOptions, choose_stack, choose_view, recipe_options, view_options
from grpo_recipes.cli.resolving import columns_not_checked, findings_answer, resolve_recipe
from grpo_recipes.contract.exits import EXIT_DONE, EXIT_NOT_STARTED, Refusal
from grpo_recipes.contract.findings.finding import has_errors
from grpo_recipes.contract.findings.findings_text import count_text, findings_text
from grpo_recipes.contract.host.engines import in_an_image
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.run_record import MICRO_BATCH, amend_record, half_of, read_record
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.sweep.sweep_file import is_sweep

if TYPE_CHECKING:
    from grpo_recipes.launch.progress import View


@click.command()
@click.argument("recipe", metavar="RECIPE|RUNDIR", shell_complete=files)
@recipe_options
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
def run(recipe: str, quiet: bool, verbose: bool, samples: int, **options: Any) -> int:
    """Train a recipe (the default command).

    For a run folder or its plan.json, launches exactly that plan in a new folder, after reporting what has changed.
    Exit codes: 0 completed, 1 the trainer failed, 2 nothing was started, 3 stopped by a check or guard, 75 interrupted.

    \b
    grpo-run run recipe.yaml --set training.max_steps=50
    grpo-run run recipe.yaml --samples 2
    grpo-run run runs/addition-20260101-120000 --resume
    """
    asked = RunOptions(**options)
    if is_sweep(recipe):
        return _continue_sweep(recipe, asked)
    view = choose_view(quiet, verbose, samples)
    if asked.verifying:
        from grpo_recipes.cli.verify import verify

        return verify(recipe, asked)
    if asked.resuming:
        from grpo_recipes.cli.resume import resume

        return resume(recipe, asked, view)
    if asked.extending is not None:
        from grpo_recipes.cli.rerun import extend

        return extend(recipe, asked.extending, asked, view)
    if names_a_plan(recipe):
        from grpo_recipes.cli.rerun import train_again

        return train_again(recipe, asked, view)
    return _train_recipe(recipe, asked, view)


def _continue_sweep(folder: str, options: RunOptions) -> int:
    if any((options.is_of_a_recipe, options.out, options.extending, options.verifying, options.accept_drift)):
        raise Refusal.of(f"{folder} is a sweep, which continues as planned; it only takes --allow-code and --json")
    from grpo_recipes.cli.sweeps.training import go_on

    return go_on(folder, options.allowed, as_json=options.as_json)


def _train_recipe(recipe: str, options: RunOptions, view: "View") -> int:
    stack = choose_stack(options.target, trains=options.trains)
    if options.accept_drift:
        raise Refusal.of("--accept-drift needs an earlier plan: a run folder, or its plan.json")

    def plan_recipe(*more: str) -> Ready | int:
        """The plan, with the additional overrides; the exit code if there is nothing to launch."""
        resolution = resolve_recipe(recipe, stack, options._replace(overrides=(*options.overrides, *more)))
        file, findings = resolution.file, resolution.findings
        if options.validate_only or (options.as_json and resolution.refused):
            then = columns_not_checked(resolution)
            click.echo(redact(findings_answer(file, findings, as_json=options.as_json, then=then)))
            return EXIT_NOT_STARTED if has_errors(findings) else EXIT_DONE
        if findings:
            click.echo(redact(findings_text(findings, file) + "\n"), err=True)
        if resolution.refused:
            click.echo(redact(f"{file}: {count_text(findings)}, nothing was started"), err=True)
        return EXIT_NOT_STARTED if resolution.refused else prepare_run(resolution)

    def halve_micro_batch(plan: Plan, folder: str) -> tuple[Plan, str] | None:
        """The run with half the micro-batch, if its recipe asks for that and memory ran out in its first step."""
        size, other = half_of(read_record(folder)), f"{folder}-halved"
        if size is None or os.path.lexists(other):
            return None
        amend_record(folder, {"begun_anew": os.path.abspath(other)})
        why = "out of memory in the first step: restarted with a micro-batch of"
        click.echo(redact(f"{why} {size} instead of {plan.batch.micro_batch} in {other}"), err=True)
        ready = plan_recipe(f"{'.'.join(MICRO_BATCH)}={size}")
        return None if isinstance(ready, int) else create_run(ready, options, other)

    ready = plan_recipe()
    if options.target and not (isinstance(ready, int) or options.dry_run or in_an_image(ready.plan.job)):
        raise Refusal.of(
            "--target declares a different machine, but a run needs this machine's stack", fix="add --dry-run"
        )
    return ready if isinstance(ready, int) else start_new_run(ready, options, view, halve_micro_batch)
