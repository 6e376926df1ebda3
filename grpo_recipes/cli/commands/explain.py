"""`grpo-run explain`: the page of a rule or a key."""

import click

from grpo_recipes.cli.completion import files, rules_and_keys
from grpo_recipes.cli.options import RunOptions, choose_stack, target_option
from grpo_recipes.cli.resolving import resolve_recipe
from grpo_recipes.contract.exits import EXIT_DONE, Refusal
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.facts.facts import facts_for


@click.command()
@click.argument("word", required=False, metavar="[RULE|KEY|WORD]", shell_complete=rules_and_keys)
@target_option
@click.option(
    "--recipe", metavar="FILE", shell_complete=files, help="Also show the key's value in this recipe, and what set it."
)
def explain(word: str | None, target: str | None, recipe: str | None) -> int:
    """Print what a rule checks and why, or what a key means, its default and its values in every release.

    Also takes other tools' names for a key, algorithms, and words such as oom, zero3 or verdict. For a section, lists
    its keys; without an argument, lists everything that has a page.

    \b
    grpo-run explain BAT001
    grpo-run explain grpo.beta --recipe recipe.yaml
    """
    from grpo_recipes.explain.pages import id_page

    if word is not None and target is None and recipe is None and (page := id_page(word)) is not None:
        click.echo(page)
        return EXIT_DONE
    from grpo_recipes.explain.explain import explain as page_of
    from grpo_recipes.explain.explain import nearest, overview, section_keys, set_here

    if word is None:
        if recipe is not None:
            raise Refusal.of("--recipe shows the value of one key", fix="grpo-run explain KEY --recipe FILE")
        click.echo(overview())
        return EXIT_DONE
    stack = choose_stack(target, announce=recipe is not None)
    page = page_of(word, facts_for(stack))
    if page is None:
        near = nearest(word)
        raise Refusal.of(f"there is no rule, key or topic {word!r}" + (f"; the nearest is {near}" if near else ""))
    click.echo(page)
    if (keys := section_keys(word)) is not None:
        click.echo(f"\n{keys}")
    if recipe is not None:
        click.echo(redact(set_here(word, resolve_recipe(recipe, stack, RunOptions()))))
    return EXIT_DONE
