"""The commands that start a run on several machines by hand, one for each machine."""

import json
import sys

import click

from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.render.job import job_of


def print_commands(plan: Plan, folder: str, commands: list[str], *, as_json: bool) -> None:
    """Prints the command of each machine, and on stderr what to know about them."""
    job = job_of(plan)
    if job.address is None:
        click.echo("ADDRESS is the name or address under which the others reach the first machine", err=True)
        click.echo("  (launch.main_process_ip writes it into the commands)", err=True)
    click.echo(
        f"one command for each of {job.all_nodes} machines, within ten minutes of each other; all of them need the run"
        f" folder and {sys.executable} at these paths, for example on a shared disk",
        err=True,
    )
    if as_json:
        said = {"folder": folder, "address": job.address, "port": job.port, "commands": commands}
        click.echo(redact(json.dumps(said, indent=2)))
    else:
        click.echo(redact("\n".join(commands)))
