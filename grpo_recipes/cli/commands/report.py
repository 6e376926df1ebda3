"""`grpo-run report`: renders runs as an HTML page."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from grpo_recipes.cli.completion import files
from grpo_recipes.cli.options import a_run
from grpo_recipes.contract.exits import EXIT_DONE, Refusal
from grpo_recipes.contract.run_record import read_record
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.report.runs.run_row import read_runs
from grpo_recipes.sweep.sweep_file import is_sweep, read_sweep

MOST_RUNS = 24


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="RUNDIR...", shell_complete=files, callback=a_run)
@click.option(
    "-o",
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Output file. Default: RUNDIR's name and -report.html, or runs-report.html, in the current folder.",
)
def report(folders: tuple[str, ...], out: str | None) -> int:
    """Write an HTML page about a run: problems first, then curves, completions, plan, proofs, time and memory.

    Several runs, such as those of a sweep or a folder, share the same axes, below the planned values in which they
    differ. The page is a single file that needs no network or server. For a run that is still training it is a
    snapshot.

    \b
    grpo-run report runs/first runs/second -o both.html
    """
    from grpo_recipes.report.html.page import refuse_to_replace, write_page
    from grpo_recipes.report.html.run_data import ReportedRun
    from grpo_recipes.sweep.comparison import compare_settings
    from grpo_recipes.sweep.table import table_of_page

    named, folders = folders, tuple(run for folder in folders for run in _runs_of(folder))
    if len(folders) > MOST_RUNS:
        raise Refusal.of(
            f"{len(folders)} runs are too many for one page",
            fix=f"name at most {MOST_RUNS}; grpo-run runs lists all of them",
        )
    runs = [ReportedRun(folder) for folder in folders]
    path = Path(out) if out is not None else _default_file(named)
    refuse_to_replace(path)
    sweep = None
    if len(named) == 1 and is_sweep(named[0]):
        sweep = table_of_page(compare_settings(named[0], read_sweep(named[0])))
    size = write_page(runs, path, sweep)
    click.echo(redact(f"{path}  {size / 1024:,.0f} KiB"))
    running = [folder for folder, run in zip(folders, runs, strict=True) if run.is_running]
    if running:
        is_one = len(running) == 1
        which = f"{running[0]} is" if is_one else f"{len(running)} runs are"
        watching = f"to follow {'it' if is_one else 'the first'}: grpo-run watch {shlex.quote(running[0])}"
        click.echo(redact(f"{which} still running: the page is a snapshot; {watching}"), err=True)
    return EXIT_DONE


def _default_file(folders: Sequence[str]) -> Path:
    """The default path of a page: named after the single run."""
    if len(folders) == 1:
        name = os.path.basename(os.path.abspath(folders[0])) or "run"
        return Path(f"{name}-report.html")
    return Path("runs-report.html")


def _runs_of(folder: str) -> list[str]:
    """The runs to show, oldest first: a single run, the started runs of a sweep, or all runs in a folder."""
    if not is_sweep(folder):
        runs = read_runs(folder).runs if os.path.isdir(folder) else []
        return [run.folder for run in reversed(runs)] or [folder]

    places = [os.path.join(folder, run.name) for run in read_sweep(folder).runs]
    return [path for path in places if read_record(path) is not None] or places
