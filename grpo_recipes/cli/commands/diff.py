"""`grpo-run diff`: the changes between recipes, plans and runs, or between two stacks of one recipe."""

from collections.abc import Sequence

import click

from grpo_recipes.cli.accept_option import accept_option
from grpo_recipes.cli.completion import files
from grpo_recipes.cli.sides import Side, is_written, sides_of
from grpo_recipes.cli.stack_option import set_option
from grpo_recipes.compare.differences import differences
from grpo_recipes.contract.exits import EXIT_DIFFERENT, EXIT_DONE, EXIT_NOT_STARTED
from grpo_recipes.contract.findings.findings_text import count_text, findings_text
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.errors import Refusal
from grpo_recipes.report.diff_text import diff_json, diff_text, refused_json

FORMATS = ("text", "json", "markdown")


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
    help="A stack as for `plan`; give it twice for a single recipe.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
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
    """Say whether two recipes, plans or runs, or one recipe on two stacks, are the same experiment.

    A and B are recipes, plan.json files or run folders, in any mix. Results of runs are shown but do not count. Exits 0
    for the same experiment, 1 for a different one, 2 if either cannot run.

    \b
    grpo-run diff before.yaml after.yaml --format markdown
    """
    a, b = sides_of(recipes, targets, overrides, accepted)
    form = "json" if as_json else form
    if a.plan is None or b.plan is None:
        click.echo(redact(_refused((a, b), form)), nl=form != "text")
        return EXIT_NOT_STARTED
    try:
        between = differences(a.plan, b.plan)
    except (ValueError, TypeError, ZeroDivisionError) as error:
        if not any(map(is_written, recipes)):
            raise
        raise Refusal.of("a plan cannot be compared", because=str(error)) from None
    names, measured, changed = (a.name, b.name), (a.measured, b.measured), (a.changed, b.changed)
    if form == "markdown":
        from grpo_recipes.report.diff_markdown import diff_markdown

        click.echo(redact(diff_markdown(names, between, measured, changed)))
    else:
        click.echo(redact((diff_json if form == "json" else diff_text)(names, between, measured, changed)))
    return EXIT_DIFFERENT if between.experiment else EXIT_DONE


def _refused(sides: Sequence[Side], form: str) -> str:
    """The findings of a side that cannot run; a line names the other side as one that can."""
    found = [(side.name, side.findings) for side in sides]
    if form == "json":
        return refused_json(found)
    if form == "markdown":
        from grpo_recipes.report.diff_markdown import refused_markdown

        return refused_markdown(found)
    said = []
    for side in sides:
        errors = [finding for finding in side.findings if finding.severity == "error"]
        text = findings_text(errors, side.file)
        said.append(f"{side.name}: {count_text(errors)}\n\n{text}\n\n" if errors else f"{side.name} can run\n\n")
    return redact("".join(said))
