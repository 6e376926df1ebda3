"""What a sweep answers: its table, and the page of its runs."""

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
from grpo_recipes.report.findings_json import findings_json
from grpo_recipes.sweep.comparison import compared
from grpo_recipes.sweep.sweep_file import is_sweep, read_sweep
from grpo_recipes.sweep.table import table_json, table_text


def tell_findings(recipe: str, planned: PlannedSweep, *, as_json: bool, is_answer: bool) -> None:
    """Prints what was found in all runs; on stderr where it is not what was asked for."""
    if as_json:
        click.echo(redact(findings_json({recipe: planned.findings})))
        return
    text = findings_text(planned.findings, recipe)
    runs = "nothing was started" if planned.sweep is None else f"{len(planned.sweep.runs)} runs"
    last = f"{recipe}: {count_text(planned.findings)}, {runs}"
    click.echo(redact((f"{text}\n\n" if text else "") + last), err=not is_answer)


def answer(folder: str, *, as_json: bool) -> None:
    """Prints the table of a sweep as it stands."""
    found = compared(folder, read_sweep(folder))
    click.echo(redact(table_json(found) + "\n" if as_json else table_text(found)), nl=False)


def go_on(folder: str, allowed: tuple[str, ...], *, as_json: bool) -> int:
    """Trains what of a sweep did not come to its end, prints its table, and returns the exit code.

    Raises Refusal for what is no sweep, and where another process goes on with it.
    """
    from grpo_recipes.cli.sweeps.training import train_sweep

    if not is_sweep(folder):
        raise Refusal.of(
            f"{folder} is no sweep", because="there is no sweep.json in it", fix="grpo-run sweep RECIPE begins one"
        )
    code = train_sweep(folder, read_sweep(folder), allowed)
    write_report(folder)
    answer(folder, as_json=as_json)
    if code == EXIT_INTERRUPTED:
        click.echo(redact(f"\ngrpo-run sweep {shlex.quote(folder)} goes on with it"), err=True)
    return code


def write_report(folder: str) -> None:
    """Lets `grpo-run report` write report.html of the runs that began.

    What it says is talk here, since stdout has the table, and what it refuses changes no exit.
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
