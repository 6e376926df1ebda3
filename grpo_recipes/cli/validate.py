"""`grpo-run validate`: all findings of recipes, without importing torch."""

import click

from grpo_recipes.cli.resolving import resolved
from grpo_recipes.cli.stack_option import chosen_stack, set_option, strict_option, target_option
from grpo_recipes.errors import EXIT_DONE, EXIT_NOT_STARTED
from grpo_recipes.report.findings_text import count_text, findings_text
from grpo_recipes.trust.redact import redact


@click.command()
@click.argument("recipes", nargs=-1, required=True, metavar="RECIPE...")
@set_option
@target_option
@strict_option
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Form of the answer.")
def validate(recipes: tuple[str, ...], overrides: tuple[str, ...], target: str | None, strict: bool, form: str) -> int:
    """Check recipes against the stack; exit 2 when one of them has an error."""
    stack = chosen_stack(target)
    resolutions = [resolved(recipe, stack, overrides, strict=strict) for recipe in recipes]
    if form == "json":
        from grpo_recipes.report.findings_json import findings_json

        click.echo(redact(findings_json({r.file: r.findings for r in resolutions})))
    else:
        for resolution in resolutions:
            text = findings_text(resolution.findings, resolution.file)
            head = f"{resolution.file}: {count_text(resolution.findings)}"
            click.echo(redact(f"{text}\n\n{head}" if text else head))
    return EXIT_NOT_STARTED if any(r.refused for r in resolutions) else EXIT_DONE
