"""`grpo-run watch`: shows a run that another process trains."""

import shlex
import sys

import click

from grpo_recipes.cli.completion import files
from grpo_recipes.cli.watched.view_option import chosen_view, view_options
from grpo_recipes.contract.exits import EXIT_INTERRUPTED
from grpo_recipes.contract.secrets.redact import redact


@click.command()
@click.argument("folder", metavar="RUNDIR", shell_complete=files)
@view_options
@click.option("--json", "as_json", is_flag=True, help="Print run.json after the run ends.")
def watch(folder: str, quiet: bool, verbose: bool, samples: int, as_json: bool) -> int:
    """Show a run in another shell, in a queue or on another machine, until it ends.

    Writes nothing, and Ctrl-C does not stop the run. Exits like the run: 0 completed, 1 it failed or its process is
    gone, 3 a check or guard stopped it, 75 it was interrupted, or Ctrl-C; 2 it was never started.

    \b
    grpo-run watch runs/addition-20260101-120000 --samples 2
    """
    from grpo_recipes.cli.launching import conclude, refuse_strange_entries
    from grpo_recipes.cli.watched.following import began, follow_to_the_end
    from grpo_recipes.engines.catalog import engine_of
    from grpo_recipes.launch.showing import progress
    from grpo_recipes.lock.read_lock import read_lock

    view, lock = chosen_view(quiet, verbose, samples), read_lock(folder)
    refuse_strange_entries(lock.folder)
    engine = engine_of(lock.plan)
    try:
        with progress(sys.stderr, view, began(lock.record)) as shown:
            code = follow_to_the_end(lock.folder, lambda: engine.is_active(lock.folder), shown)
    except KeyboardInterrupt:
        click.echo(redact(f"stopped watching; to watch it again: grpo-run watch {shlex.quote(folder)}"), err=True)
        return EXIT_INTERRUPTED
    return conclude(lock.plan, lock.folder, code, as_json=as_json)
