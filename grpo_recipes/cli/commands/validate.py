"""`grpo-run validate`: prints all findings of recipes, without importing torch."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from grpo_recipes.cli.completion import files
from grpo_recipes.cli.options import RunOptions, choose_stack, recipe_options
from grpo_recipes.cli.resolving import columns_not_checked, findings_answer, resolve_recipe
from grpo_recipes.contract.exits import EXIT_DONE, EXIT_NOT_STARTED, Refusal
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.resolve.resolve import Resolution

FORMATS = ("text", "json", "github", "sarif")
_OF_A_RECIPE = re.compile(rb"""^["']?recipe["']?[ \t]*:[ \t]*1[ \t\r]*(#.*)?$""", re.M)


class _Validate(click.Command):
    """An option --fix whose value must follow =, since a separate word is a recipe."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        parts = [["--fix", "--asked", arg[6:]] if arg.startswith("--fix=") else [arg] for arg in args]
        return super().parse_args(ctx, [part for words in parts for part in words])


@click.command(cls=_Validate)
@click.argument("recipes", nargs=-1, required=True, metavar="RECIPE...", shell_complete=files)
@recipe_options
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    help="Output format: for people, programs, GitHub workflow annotations, or code scanning.",
)
@click.option(
    "--only-recipes", is_flag=True, help="Skip files without a line `recipe: 1`; for hooks that pass every YAML file."
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option(
    "--fix",
    is_flag=True,
    help="Print the safe fixes of errors and warnings as a diff instead; --fix --write writes them. Fixes that "
    "replace, remove or add a value are suggestions: --fix=suggested includes them, --fix=BAT001,LRA003 only those of "
    "these rules.",
)
@click.option("--asked", "rules", hidden=True)
@click.option("--write", is_flag=True, help="With --fix: write the fixes into the recipe, keeping comments and layout.")
def validate(
    recipes: tuple[str, ...],
    form: str,
    only_recipes: bool,
    fix: bool,
    rules: str | None,
    write: bool,
    **options: Any,
) -> int:
    """Check recipes against the stack; exits 2 if any has an error.

    \b
    grpo-run validate recipe.yaml --target tested,gpus=8xH100-80GB
    """
    if write and not fix:
        raise Refusal.of("--write needs --fix", fix="--fix --write")
    asked = RunOptions(**options)
    form = "json" if asked.as_json else form
    if fix and (asked.overrides or form != "text"):
        raise Refusal.of("--fix edits the file, so it takes neither --set nor --format")
    recipes = tuple(filter(_is_recipe, recipes)) if only_recipes else recipes
    stack = choose_stack(asked.target)
    resolutions = []
    for recipe in recipes:
        resolutions.append(resolve_recipe(recipe, stack, asked))
        if form == "text" and not fix:
            _answer(resolutions[-1:], form)  # at once, since a folder of recipes takes a while
    if fix:
        from grpo_recipes.cli.fix import fix_recipe, parse_rules

        of_rules = parse_rules(rules)
        for index, resolution in enumerate(resolutions):
            again = partial(resolve_recipe, resolution.file, stack, asked)
            made = fix_recipe(resolution, again, of_rules, write=write)
            if write:
                resolutions[index] = made.after
    elif form != "text":
        _answer(resolutions, form)
    return EXIT_NOT_STARTED if any(r.refused for r in resolutions) else EXIT_DONE


def _is_recipe(path: str) -> bool:
    """Whether a file has a line that only a recipe has; unreadable files count as recipes."""
    try:
        return _OF_A_RECIPE.search(Path(path).read_bytes()) is not None
    except OSError:
        return True


def _answer(resolutions: Sequence[Resolution], form: str) -> None:
    by_file = {resolution.file: resolution.findings for resolution in resolutions}
    if form == "json":
        from grpo_recipes.report.findings_formats import findings_json

        click.echo(redact(findings_json(by_file)))
    elif form == "github":
        from grpo_recipes.report.findings_formats import findings_github

        click.echo(redact(findings_github(by_file)), nl=False)
    elif form == "sarif":
        from grpo_recipes.explain.pages import known_ids
        from grpo_recipes.report.findings_formats import findings_sarif

        click.echo(redact(findings_sarif(by_file, known_ids())))
    else:
        for resolution in resolutions:
            then = columns_not_checked(resolution)
            click.echo(redact(findings_answer(resolution.file, resolution.findings, as_json=False, then=then)))
