"""`grpo-run plan`: every value of a run, with where it comes from and why, and the releases that can express it."""

from dataclasses import asdict, replace

import click

from grpo_recipes.cli.resolving import resolved
from grpo_recipes.cli.stack_option import chosen_stack, set_option, strict_option, target_option
from grpo_recipes.errors import EXIT_DONE, EXIT_NOT_STARTED
from grpo_recipes.plan import to_json
from grpo_recipes.report.findings_text import count_text, findings_text
from grpo_recipes.report.plan_text import plan_text
from grpo_recipes.resolve.expressible import expressible
from grpo_recipes.resolve.resolve import plan_of
from grpo_recipes.trust.redact import redact


@click.command()
@click.argument("recipe")
@set_option
@target_option
@strict_option
@click.option("--json", "as_json", is_flag=True, help="Print what plan.json of a run would hold, and the releases.")
def plan(recipe: str, overrides: tuple[str, ...], target: str | None, strict: bool, as_json: bool) -> int:
    """Print what a recipe would run on the stack, and which releases can express it; writes nothing."""
    resolution = resolved(recipe, chosen_stack(target), overrides, strict=strict)
    if resolution.refused or resolution.context is None:
        click.echo(redact(findings_text(resolution.findings, recipe)), err=True)
        click.echo(f"\n{recipe}: {count_text(resolution.findings)}", err=True)
        return EXIT_NOT_STARTED
    releases = expressible(resolution.context.source, resolution.context.stack)
    made = replace(plan_of(resolution), expressible=asdict(releases))
    click.echo(redact(to_json(made)) if as_json else plan_text(made), nl=not as_json)
    return EXIT_DONE
