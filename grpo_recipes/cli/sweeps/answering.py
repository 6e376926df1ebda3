"""A sweep's output: its table, and the page of its runs."""

import contextlib
import os
import shlex
import sys

import click

from grpo_recipes.cli.main import grpo_run
from grpo_recipes.cli.sweeps.planning import PlannedSweep
from grpo_recipes.contract.exits import EXIT_INTERRUPTED
from grpo_recipes.contract.findings.findings_text import count_text, findings_text
from grpo_recipes.contract.run_record import read_record
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.errors import Refusal
from grpo_recipes.report.findings_formats import findings_json
from grpo_recipes.sweep.comparison import compared
from grpo_recipes.sweep.sweep_file import is_sweep, read_sweep
from grpo_recipes.sweep.table import table_json, table_text


def tell_findings(recipe: str, planned: PlannedSweep, *, as_json: bool, is_answer: bool) -> None:
    """Prints the findings of all runs, on stderr unless they are the requested output."""
    if as_json:
        click.echo(redact(findings_json({recipe: planned.findings})))
        return
    text = findings_text(planned.findings, recipe)
    runs = "nothing was started" if planned.sweep is None else f"{len(planned.sweep.runs)} runs"
    last = f"{recipe}: {count_text(planned.findings)}, {runs}"
    click.echo(redact((f"{text}\n\n" if text else "") + last), err=not is_answer)


def answer(folder: str, *, as_json: bool) -> None:
    """Prints the current table of a sweep."""
    found = compared(folder, read_sweep(folder))
    click.echo(redact(table_json(found) + "\n" if as_json else table_text(found)), nl=False)


def go_on(folder: str, allowed: tuple[str, ...], *, as_json: bool) -> int:
    """Trains the unfinished runs of a sweep, prints its table, and returns the exit code.

    Raises Refusal if it is not a sweep, or if another process is running it.
    """
    from grpo_recipes.cli.sweeps.training import train_sweep

    if not is_sweep(folder):
        raise Refusal.of(
            f"{folder} is not a sweep", because="it has no sweep.json", fix="grpo-run sweep RECIPE starts one"
        )
    code = train_sweep(folder, read_sweep(folder), allowed)
    write_report(folder)
    answer(folder, as_json=as_json)
    if code == EXIT_INTERRUPTED:
        click.echo(redact(f"\ngrpo-run sweep {shlex.quote(folder)} continues it"), err=True)
    return code


def write_report(folder: str) -> None:
    """Lets `grpo-run report` write report.html about the started runs.

    Its output goes to stderr, since stdout has the table; a refusal does not change the exit code.
    """
    places = [os.path.join(folder, run.name) for run in read_sweep(folder).runs]
    begun = [place for place in places if read_record(place) is not None]
    if not begun:
        return
    try:
        with contextlib.redirect_stdout(sys.stderr):
            words = ["report", *begun, "-o", os.path.join(folder, "report.html")]
            grpo_run.main(words, prog_name="grpo-run", standalone_mode=False)
    except Refusal as refusal:
        click.echo(redact(f"no report: {refusal}"), err=True)
