"""`grpo-run schema`: prints a JSON Schema for editors."""

import click

from grpo_recipes.contract.exits import EXIT_DONE


@click.command()
@click.argument("name", type=click.Choice(["recipe", "plan", "run", "findings", "diff", "doctor"]), default="recipe")
def schema(name: str) -> int:
    """Print the JSON Schema of a recipe, or of other commands' output.

    \b
    grpo-run schema findings
    """
    from grpo_recipes.schemas.export import schema_text

    click.echo(schema_text(name), nl=False)
    return EXIT_DONE
