"""`grpo-run explain`: the page of a rule or a key."""

import click

from grpo_recipes.cli.stack_option import chosen_stack, target_option
from grpo_recipes.errors import EXIT_DONE, Refusal
from grpo_recipes.facts.facts import facts_for


@click.command()
@click.argument("word", metavar="RULE|KEY")
@target_option
def explain(word: str, target: str | None) -> int:
    """Print what a rule defends and why, or what a key means, its default and its values."""
    from grpo_recipes.docs.explain import explain as page_of
    from grpo_recipes.docs.explain import nearest

    page = page_of(word, facts_for(chosen_stack(target)))
    if page is None:
        near = nearest(word)
        raise Refusal(f"there is no rule or key {word!r}" + (f"; the nearest is {near}" if near else ""))
    click.echo(page)
    return EXIT_DONE
