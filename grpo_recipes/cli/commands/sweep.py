"""`grpo-run sweep RECIPE`: runs of a recipe with different values and seeds. SWEEPDIR: continues them."""

import os
import shlex
from datetime import UTC, datetime
from typing import Any

import click

from grpo_recipes.cli.completion import files, keys_to_set
from grpo_recipes.cli.launching import allow_code_option, print_dry_run
from grpo_recipes.cli.options import RunOptions, recipe_options
from grpo_recipes.contract.exits import EXIT_DONE, EXIT_NOT_STARTED, Refusal
from grpo_recipes.contract.findings.findings_text import findings_text
from grpo_recipes.contract.secrets.redact import redact


@click.command()
@click.argument("recipe", metavar="RECIPE|SWEEPDIR", shell_complete=files)
@click.option(
    "--vary",
    "varied",
    metavar="KEY=VALUES",
    multiple=True,
    shell_complete=keys_to_set,
    help="Try several values of a key, e.g. training.learning_rate=1e-5,3e-5; several keys give all combinations. With "
    "--trials also a range: log:1e-6..1e-4, uniform:0..0.1 or int:1..8.",
)
@click.option(
    "--seeds",
    metavar="NUMBER|LIST",
    default="3",
    show_default=True,
    help="Train each setting with this many seeds, starting at the recipe's, or with a list of seeds: 1,2,3.",
)
@click.option("--trials", type=click.IntRange(min=1), help="Draw this many settings at random instead of trying all.")
@click.option("--draw", type=click.IntRange(min=0), default=0, show_default=True, help="Seed for --trials.")
@recipe_options
@click.option("--validate-only", is_flag=True, help="Stop after checking all runs; write nothing.")
@click.option(
    "--dry-run", is_flag=True, help="Write the folder with all runs and stop; grpo-run sweep SWEEPDIR starts them."
)
@click.option(
    "--out",
    metavar="FOLDER",
    shell_complete=files,
    help="Sweep folder; it must not exist yet. Default: runs/NAME-sweep-TIME.",
)
@click.option("--table", "table_alone", is_flag=True, help="Print the current table of a SWEEPDIR, and stop.")
@allow_code_option
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON: the table, findings or a folder.")
def sweep(
    recipe: str,
    varied: tuple[str, ...],
    seeds: str,
    trials: int | None,
    draw: int,
    table_alone: bool,
    **options: Any,
) -> int:
    """Train a recipe with different values and seeds, and show which differences exceed noise.

    Checks and plans all runs before it starts the first. A sweep folder continues where it stopped. Exit codes:
    0 all completed, 1 a run failed or was stopped, 2 nothing was started, 75 interrupted.

    \b
    grpo-run sweep recipe.yaml --vary training.learning_rate=1e-5,3e-5 --seeds 3
    grpo-run sweep runs/addition-sweep-20260101-120000 --table
    """
    from grpo_recipes.cli.sweeps.training import answer, go_on, print_findings

    asked = RunOptions(**options)
    if os.path.isdir(recipe):
        if any((varied, trials, asked.is_of_a_recipe, asked.strict, asked.out)):
            raise Refusal.of("a sweep folder continues as planned; it only takes --table, --allow-code and --json")
        if table_alone:
            answer(recipe, as_json=asked.as_json)
            return EXIT_DONE
        return go_on(recipe, asked.allowed, as_json=asked.as_json)
    if table_alone:
        raise Refusal.of(f"--table needs a sweep folder, but {recipe} is not one")
    if asked.target is not None and asked.trains:
        raise Refusal.of(
            "--target declares a different machine, but a sweep needs this machine's stack", fix="add --dry-run"
        )
    from grpo_recipes.cli.sweeps.planning import (
        detectable_text,
        pin_and_allow_code,
        plan_sweep,
        shares_to_start,
        write_sweep,
    )
    from grpo_recipes.launch.display import busy
    from grpo_recipes.sweep.variations import read_varied, trials_of

    settings = trials_of([read_varied(text) for text in varied], trials, draw)
    with busy("planning the runs"):
        planned = plan_sweep(recipe, asked, settings, seeds)
    if asked.validate_only or planned.sweep is None:
        print_findings(recipe, planned, as_json=asked.as_json, is_answer=asked.validate_only)
        return EXIT_NOT_STARTED if planned.sweep is None else EXIT_DONE
    if planned.findings:
        click.echo(redact(findings_text(planned.findings, recipe) + "\n"), err=True)
    if (text := detectable_text(planned)) is not None:
        click.echo(text, err=True)
    if not asked.dry_run:
        shares_to_start([run.plan for run in planned.ready])
        planned = pin_and_allow_code(planned, asked.allowed)
    out = asked.out
    if out is None:
        name = f"{planned.ready[0].plan.name}-sweep-{datetime.now(UTC).strftime('%Y%m%d-%H%M%S')}"
        out = os.path.join(planned.ready[0].beside, name)
    assert planned.sweep is not None
    with busy("writing the run folders"):
        folder = write_sweep(planned.sweep, planned.ready, out, is_code_pinned=not asked.dry_run)
    if asked.dry_run:
        print_dry_run(folder, f"sweep {shlex.quote(folder)}", asked)
        return EXIT_DONE
    return go_on(folder, asked.allowed, as_json=asked.as_json)
