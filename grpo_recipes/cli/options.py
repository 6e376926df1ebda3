"""The stack for a command: this machine's, or a declared one."""

import click

from grpo_recipes.cli.completion import files, keys_to_set
from grpo_recipes.contract.errors import Refusal
from grpo_recipes.stack.probe import probe
from grpo_recipes.stack.stack import Stack

target_option = click.option(
    "--target",
    metavar="STACK",
    shell_complete=files,
    help="Declare the stack instead of using this machine's: trl==1.16.0,transformers==5.23.0,gpus=8xH100-80GB;"
    " tested, the stack of grpo-run's own tests, as in tested,gpus=8xH100-80GB; or a file printed by"
    " `grpo-run doctor --json`.",
)
set_option = click.option(
    "--set",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    shell_complete=keys_to_set,
    help="Override one value, e.g. grpo.beta=0.04 or rewards[0].weight=2; repeatable.",
)
strict_option = click.option("--strict", is_flag=True, help="Treat unchecked points as errors.")


def chosen_stack(target: str | None) -> Stack:
    """The declared stack, or this machine's. Raises Refusal for an unreadable target."""
    if target is None:
        return probe()
    from grpo_recipes.stack.target import parse_target

    stack, findings = parse_target(target)
    if stack is None or any(finding.severity == "error" for finding in findings):
        raise Refusal(*findings)
    return stack
