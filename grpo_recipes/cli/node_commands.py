"""What a run on several machines is started with by hand: one command for each of them."""

import json
import sys

import click

from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.render.job import job_of, machine_commands


def is_by_hand(plan: Plan) -> bool:
    """Whether nothing here can start the run: several machines, and no engine that shares them out."""
    return plan.world.engine == "local" and job_of(plan).all_nodes > 1


def print_commands(plan: Plan, folder: str, *, as_json: bool, resume: bool = False) -> None:
    """Prints the command of each machine, and on stderr what is to be known of them."""
    job = job_of(plan)
    commands = machine_commands(job, folder, sys.executable, resume=resume)
    click.echo(redact(f"run folder {folder}"), err=True)
    if job.address is None:
        click.echo("ADDRESS is the name or address of the first machine, as the others reach it", err=True)
        click.echo("  (launch.main_process_ip writes it into the commands)", err=True)
    click.echo(
        f"one command for each of {job.all_nodes} machines, within ten minutes of each other; all of them need the run"
        f" folder and {sys.executable} at these places, as on a disk that they share",
        err=True,
    )
    if as_json:
        said = {"folder": folder, "address": job.address, "port": job.port, "commands": commands}
        click.echo(redact(json.dumps(said, indent=2)))
    else:
        click.echo(redact("\n".join(commands)))
