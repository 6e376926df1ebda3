"""`grpo-run diff`: compares recipes, plans and runs, or one recipe on two stacks."""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from grpo_recipes.cli.completion import files
from grpo_recipes.cli.launching import names_a_plan
from grpo_recipes.cli.options import RunOptions, accept_option, choose_stack, set_option
from grpo_recipes.cli.resolving import resolve_recipe
from grpo_recipes.compare.differences import differences
from grpo_recipes.contract.exits import EXIT_DIFFERENT, EXIT_DONE, EXIT_NOT_STARTED, Refusal
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.report.diff_text import (
    Side,
    diff_json,
    diff_markdown,
    diff_text,
    refusal_json,
    refusal_markdown,
    refusal_text,
)
from grpo_recipes.resolve.resolve import plan_of
from grpo_recipes.stack.stack import Stack

# Per format: what prints two plans, and what prints sides of which one is refused.
FORMATS = {
    "text": (diff_text, refusal_text),
    "json": (diff_json, refusal_json),
    "markdown": (diff_markdown, refusal_markdown),
}


def sides_of(
    places: Sequence[str], targets: Sequence[str], overrides: Sequence[str], accepted: Sequence[str]
) -> tuple[Side, Side]:
    """Both sides; for one recipe with one target, the first side is this machine.

    targets, overrides, accepted: for recipes only. Raises Refusal for sides that cannot be compared.
    """
    pairs = _pairs(places, targets)
    written = [names_a_plan(path) for path, _ in pairs]
    if all(written) and (targets or overrides or accepted):
        raise Refusal.of("--target, --set and --accept need a recipe; plans are compared unchanged")
    of_recipes = {target for (_, target), is_plan in zip(pairs, written, strict=True) if not is_plan}
    stacks = {target: choose_stack(target) for target in of_recipes}
    sides = [
        _side_of_plan(path) if is_plan else _side_of_recipe(path, stacks[target], overrides, accepted)
        for (path, target), is_plan in zip(pairs, written, strict=True)
    ]
    return sides[0], sides[1]


def _pairs(places: Sequence[str], targets: Sequence[str]) -> list[tuple[str, str | None]]:
    if len(places) == 2 and len(targets) <= 1:
        target = targets[0] if targets else None
        return [(path, target) for path in places]
    if len(places) == 1 and len(targets) in (1, 2) and not names_a_plan(places[0]):
        return [(places[0], targets[0] if len(targets) == 2 else None), (places[0], targets[-1])]
    raise Refusal.of(
        "diff takes two recipes, plans or run folders, with --target at most once,"
        " or one recipe with --target once or twice"
    )


def _side_of_recipe(recipe: str, stack: Stack, overrides: Sequence[str], accepted: Sequence[str]) -> Side:
    resolution = resolve_recipe(recipe, stack, RunOptions(tuple(overrides), accepted=tuple(accepted)))
    plan = None if resolution.refused else plan_of(resolution)
    return Side(f"{recipe} on {stack.origin}", recipe, plan, resolution.findings)


def _side_of_plan(path: str) -> Side:
    from grpo_recipes.contract.integrity.used_run import find_changed_files  # not needed for recipes
    from grpo_recipes.lock.read_lock import read_lock

    lock = read_lock(path)
    ran = lock.record if os.path.isdir(path) else None
    changed = tuple(map(str, find_changed_files(Path(lock.folder)))) if lock.is_run_folder else ()
    return Side(path, lock.path, lock.plan, measured=ran, changed=changed)


@click.command()
@click.argument("recipes", nargs=-1, required=True, metavar="A [B]", shell_complete=files)
@set_option
@accept_option
@click.option(
    "--target",
    "targets",
    metavar="STACK",
    multiple=True,
    shell_complete=files,
    help="A stack, as for `plan`; give it twice to compare one recipe on two stacks.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice([*FORMATS]),
    default="text",
    help="Output format: for people, programs, or a pull request.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def diff(
    recipes: tuple[str, ...],
    overrides: tuple[str, ...],
    accepted: tuple[str, ...],
    targets: tuple[str, ...],
    form: str,
    as_json: bool,
) -> int:
    """Check whether two recipes, plans or runs, or one recipe on two stacks, are the same experiment.

    A and B are recipes, plan.json files or run folders, in any combination. Results of runs are shown but not
    compared. Exit codes: 0 the same experiment, 1 a different one, 2 a side cannot run.

    \b
    grpo-run diff before.yaml after.yaml --format markdown
    """
    a, b = sides_of(recipes, targets, overrides, accepted)
    form = "json" if as_json else form
    different_text, refused = FORMATS[form]
    if a.plan is None or b.plan is None:
        click.echo(redact(refused(a, b)), nl=form != "text")
        return EXIT_NOT_STARTED
    try:
        between = differences(a.plan, b.plan)
    except (ValueError, TypeError, ZeroDivisionError) as error:
        if not any(map(names_a_plan, recipes)):
            raise
        raise Refusal.of("a plan cannot be compared", because=str(error)) from None
    click.echo(redact(different_text(a, b, between)))
    return EXIT_DIFFERENT if between.experiment else EXIT_DONE
