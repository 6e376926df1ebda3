"""`grpo-run report`: how runs went, as one HTML file."""

import os
import shlex
from pathlib import Path

import click

from grpo_recipes.cli.completion import files
from grpo_recipes.contract.exits import EXIT_DONE
from grpo_recipes.contract.run_record import read_record
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.errors import Refusal
from grpo_recipes.report.runs.read_runs import read_runs
from grpo_recipes.sweep.sweep_file import is_sweep, read_sweep

MOST_RUNS = 24


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="RUNDIR...", shell_complete=files)
@click.option(
    "-o",
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="The file. Default: RUNDIR's name and -report.html, or runs-report.html, in the folder where you are.",
)
@click.option(
    "--follow",
    "is_followed",
    is_flag=True,
    help="Write it again while the runs go on, each 5 s or more; ends with them, or when none says a word for 6 hours.",
)
def report(folders: tuple[str, ...], out: str | None, is_followed: bool) -> int:
    """Write an HTML page of a run: what is wrong first, then curves, completions, plan, proofs, time and memory.

    Several runs, also those of a sweep or of a folder, are drawn on the same axes, below the planned values in which
    they differ. The page is one file that needs no network and no server; what is in it is shown by any browser.

    \b
    grpo-run report runs/first runs/second -o both.html
    """
    from grpo_recipes.report.html.followed_page import default_file, follow, refuse_to_replace, write_page
    from grpo_recipes.report.html.followed_run import FollowedRun

    named, folders = folders, tuple(run for folder in folders for run in _runs_of(folder))
    if len(folders) > MOST_RUNS:
        raise Refusal.of(
            f"{len(folders)} runs are too many to be told apart on a page",
            fix=f"name {MOST_RUNS} at most; grpo-run runs lists all of them",
        )
    runs = [FollowedRun(folder) for folder in folders]
    path = Path(out) if out is not None else default_file(named)
    refuse_to_replace(path)
    idle = [folder for folder, run in zip(folders, runs, strict=True) if run.listed.status == "planned"]
    if is_followed and idle:
        raise Refusal.of(
            f"{idle[0]}: there is nothing to follow",
            because="nobody started it",
            fix=f"grpo-run {shlex.quote(idle[0])} trains it",
        )
    if is_followed:
        click.echo(redact(f"writing {path} while the run goes on; Ctrl-C ends that, not the run"), err=True)
        if not follow(runs, path):
            click.echo("nothing was heard for 6 hours: no more is written", err=True)
        size = os.path.getsize(path)
    else:
        size = write_page(runs, path)
    click.echo(redact(f"{path}  {size / 1024:,.0f} KiB"))
    return EXIT_DONE


def _runs_of(folder: str) -> list[str]:
    """The run of a folder, those of a sweep that began, or those of a folder of runs, the oldest first."""
    if not is_sweep(folder):
        runs = read_runs(folder).runs if os.path.isdir(folder) else []
        return [run.folder for run in reversed(runs)] or [folder]

    places = [os.path.join(folder, run.name) for run in read_sweep(folder).runs]
    return [place for place in places if read_record(place) is not None] or places
