"""`grpo-run plan`: every value of a run with its origin and reason, and the releases that support it."""

from dataclasses import asdict, replace
from typing import Any

import click

from grpo_recipes.cli.completion import files
from grpo_recipes.cli.options import RunOptions, choose_stack, recipe_options
from grpo_recipes.cli.resolving import findings_answer, resolve_recipe
from grpo_recipes.compare.expressible import expressible
from grpo_recipes.contract.exits import EXIT_DONE, EXIT_NOT_STARTED, Refusal
from grpo_recipes.contract.plan import to_json
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.report.plan_text import plan_text
from grpo_recipes.resolve.resolve import plan_of
from grpo_recipes.resolve.variants.merged_recipe import merged_recipe_text


@click.command()
@click.argument("recipe", shell_complete=files)
@recipe_options
@click.option("--json", "as_json", is_flag=True, help="Print the run's plan.json, and the releases.")
@click.option("--recipe", "as_recipe", is_flag=True, help="Print the merged recipe instead; local paths are absolute.")
@click.option(
    "--minimal", is_flag=True, help="Print a recipe with only the values that differ from its parent and the format."
)
def plan(recipe: str, as_recipe: bool, minimal: bool, **options: Any) -> int:
    """Print what a recipe would run on the stack, and which releases support it. Writes nothing.

    \b
    grpo-run plan recipe.yaml --set grpo.beta=0.04
    """
    asked = RunOptions(**options)
    if sum((asked.as_json, as_recipe, minimal)) > 1:
        raise Refusal.of("plan prints one format at a time", fix="--json, or --recipe, or --minimal")
    resolution = resolve_recipe(recipe, choose_stack(asked.target), asked)
    if resolution.refused or resolution.context is None:
        click.echo(redact(findings_answer(recipe, resolution.findings, as_json=asked.as_json)), err=not asked.as_json)
        return EXIT_NOT_STARTED
    if as_recipe:
        click.echo(redact(merged_recipe_text(resolution.context.source)), nl=False)
        return EXIT_DONE
    if minimal:
        from grpo_recipes.resolve.variants.minimal_recipe import minimal_recipe_text

        click.echo(redact(minimal_recipe_text(resolution)), nl=False)
        return EXIT_DONE
    releases = expressible(resolution.context.source, resolution.context.stack)
    made = replace(plan_of(resolution), expressible=asdict(releases))
    click.echo(redact(to_json(made) if asked.as_json else plan_text(made)), nl=not asked.as_json)
    return EXIT_DONE
