"""`grpo-run diff`: what changes between two recipes, or between two stacks of one recipe."""

import os

import click

from grpo_recipes.cli.resolving import resolved
from grpo_recipes.cli.stack_option import chosen_stack, set_option
from grpo_recipes.errors import EXIT_DIFFERENT, EXIT_DONE, EXIT_NOT_STARTED, Refusal
from grpo_recipes.report.diff_text import diff_json, diff_text, refused_json
from grpo_recipes.report.findings_text import count_text, findings_text
from grpo_recipes.resolve.differences import differences
from grpo_recipes.resolve.resolve import Resolution, plan_of
from grpo_recipes.trust.redact import redact

Sides = tuple[tuple[str, str | None], tuple[str, str | None]]


@click.command()
@click.argument("recipes", nargs=-1, required=True, metavar="RECIPE [RECIPE]")
@set_option
@click.option(
    "--target", "targets", metavar="STACK", multiple=True, help="A stack as for `plan`; twice for one recipe."
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def diff(recipes: tuple[str, ...], overrides: tuple[str, ...], targets: tuple[str, ...], as_json: bool) -> int:
    """Say whether two recipes, or one on two stacks, are the same experiment, and what else differs.

    Exits 0 for the same experiment, 1 for another one, 2 when one of the two cannot be run.
    """
    sides = _sides(recipes, targets)
    found = [resolved(recipe, chosen_stack(target), overrides, strict=False) for recipe, target in sides]
    names = tuple(_name(recipe, target) for recipe, target in sides)
    if any(resolution.refused for resolution in found):
        _say_refused(list(zip(names, found, strict=True)), as_json)
        return EXIT_NOT_STARTED
    between = differences(plan_of(found[0]), plan_of(found[1]))
    click.echo((diff_json if as_json else diff_text)((names[0], names[1]), between))
    return EXIT_DIFFERENT if between.experiment else EXIT_DONE


def _sides(recipes: tuple[str, ...], targets: tuple[str, ...]) -> Sides:
    """Recipe and target of both sides; this machine is the first where one target alone is named."""
    for path in recipes:
        if os.path.isdir(path) or path.endswith(".json"):
            raise Refusal(f"{path} is no recipe; run folders and plans cannot be compared yet")
    if len(recipes) == 2 and len(targets) <= 1:
        target = targets[0] if targets else None
        return (recipes[0], target), (recipes[1], target)
    if len(recipes) == 1 and len(targets) in (1, 2):
        first = targets[0] if len(targets) == 2 else None
        return (recipes[0], first), (recipes[0], targets[-1])
    raise Refusal("diff takes two recipes, with --target at most once, or one recipe with --target once or twice")


def _name(recipe: str, target: str | None) -> str:
    return f"{recipe} on {target or 'this machine'}"


def _say_refused(sides: list[tuple[str, Resolution]], as_json: bool) -> None:
    """The findings of what cannot be run; the other side is named as one that can."""
    if as_json:
        click.echo(refused_json([(name, one.findings) for name, one in sides]))
        return
    for name, resolution in sides:
        errors = [finding for finding in resolution.findings if finding.severity == "error"]
        text = findings_text(errors, resolution.file)
        click.echo(redact(f"{name}: {count_text(errors)}\n\n{text}\n" if errors else f"{name} can be run\n"))
