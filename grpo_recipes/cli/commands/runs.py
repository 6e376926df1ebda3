"""`grpo-run runs`: compares the runs of a folder."""

import os
import shutil
import sys

import click

from grpo_recipes.cli.completion import keys_to_set
from grpo_recipes.contract.exits import EXIT_DONE
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.contract.secrets.redact import redact

DEFAULT = "runs"
PIPED_WIDTH = 120
"""Columns of text in a pipe or a file, which people read, too; programs use --json."""
NAMED = 4
"""Columns that are only named if the terminal is too narrow for them."""


@click.command()
@click.argument("folder", default=DEFAULT, metavar="[FOLDER]", type=click.Path(file_okay=False))
@click.option(
    "--sort",
    metavar="KEY",
    default="started",
    help="Sort by started, step, reward, held_out or time, newest or highest first; by name, status or a key of "
    "the plans, lowest first. Default: started.",
)
@click.option("--reverse", is_flag=True, help="Reverse the order.")
@click.option(
    "--filter",
    "filters",
    metavar="FILTER",
    multiple=True,
    shell_complete=keys_to_set,
    help="Show only runs with this status (status=failed), name ('addition-*') or planned value (grpo.beta=0.04); "
    "repeatable, all must match.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the runs as JSON, with all values in which they differ.")
def runs(folder: str, sort: str, reverse: bool, filters: tuple[str, ...], as_json: bool) -> int:
    """List the runs of a folder with status, results, and the planned values in which they differ.

    The reward is the mean of the last ten steps. Writes nothing, and names folders that are damaged or not runs.

    \b
    grpo-run runs --filter status=completed --sort held_out
    """
    from grpo_recipes.report.runs.run_row import Runs, read_runs
    from grpo_recipes.report.runs.runs_text import (
        damage_text,
        differing,
        filter_runs,
        others_text,
        runs_json,
        runs_table,
        sort_runs,
    )

    has_none = folder == DEFAULT and not os.path.lexists(folder)
    listing = Runs(folder, [], {}) if has_none else read_runs(folder)
    shown = sort_runs(filter_runs(listing.runs, filters), sort)
    shown = shown[::-1] if reverse else shown
    keys = differing(shown)
    if as_json:
        click.echo(redact(runs_json(listing, shown, keys)))
        return EXIT_DONE
    if shown:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPED_WIDTH
        table = runs_table(shown, keys, width)
        click.echo(redact(table.text), nl=False)
        if table.left_out:
            click.echo(redact(f"not shown, but in --json: {join_items(table.left_out, NAMED)}"), err=True)
    else:
        reason = "no run matches the filters" if listing.runs else f"no runs in {folder}"
        click.echo(redact(reason), err=True)
    click.echo(redact(damage_text(shown) + others_text(listing.others)), err=True, nl=False)
    return EXIT_DONE
