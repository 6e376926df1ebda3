"""`grpo-run allowed`: the folders whose code this user has allowed."""

import json

import click

from grpo_recipes.contract.exits import EXIT_DONE, Refusal
from grpo_recipes.contract.secrets.redact import redact


@click.command()
@click.option("--forget", metavar="FOLDER", help="Forget a folder: its code needs consent again. `.` is this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print the folders as JSON.")
def allowed(forget: str | None, as_json: bool) -> int:
    """List the folders that `--allow-code here` allowed.

    \b
    grpo-run allowed --forget .
    """
    from grpo_recipes.trust import folders

    if forget is not None:
        if not folders.forget(forget):
            raise Refusal.of(f"folder {forget} was not allowed", fix="grpo-run allowed lists them")
        click.echo(redact(f"forgot {forget}"), err=True)
    folders_allowed = folders.allowed_folders()
    if as_json:
        rows = [{"path": entry.path, "since": entry.since} for entry in folders_allowed]
        click.echo(redact(json.dumps({"folders": rows}, indent=2)))
        return EXIT_DONE
    for entry in folders_allowed:
        click.echo(redact(f"{entry.since}  {entry.path}"))
    if not folders_allowed:
        click.echo("no folder is allowed", err=True)
    return EXIT_DONE
