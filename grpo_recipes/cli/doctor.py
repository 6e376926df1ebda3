"""`grpo-run doctor`: the stack of this machine, and what it lacks."""

import json

import click

from grpo_recipes.cli.stack_option import chosen_stack, target_option
from grpo_recipes.errors import EXIT_DONE
from grpo_recipes.facts.facts import facts_for
from grpo_recipes.report.stack_text import stack_text
from grpo_recipes.resolve.stack_findings import stack_findings
from grpo_recipes.rules.stack_is_complete import ALWAYS
from grpo_recipes.stack.stack import to_json_value


@click.command()
@target_option
@click.option("--json", "as_json", is_flag=True, help="Print the form that --target reads.")
def doctor(target: str | None, as_json: bool) -> int:
    """Show the packages and GPUs, and what is missing for a run."""
    stack = chosen_stack(target)
    found = [f"{f.severity}: {f.message}" for f in stack_findings(stack, facts_for(stack))]
    missing = [package for package in ALWAYS if stack.is_absent(package)]
    if missing:
        found.append(f"error: {', '.join(missing)} not installed: pip install 'grpo-recipes[train]'")
    if as_json:
        value = {"doctor": 1, "stack": to_json_value(stack), "findings": found}
        click.echo(json.dumps(value, indent=2))
    else:
        click.echo("\n".join([stack_text(stack), "", *(found or ["nothing is missing for a run"])]))
    return EXIT_DONE
