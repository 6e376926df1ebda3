"""Shell completion for the words of a command line: files and known names.

Every command imports this module, so it imports nothing until needed.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from click import Context, Parameter
    from click.shell_completion import CompletionItem


def files(ctx: "Context", param: "Parameter", incomplete: str) -> "list[CompletionItem]":
    """Lets the shell complete files."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def rules_and_keys(ctx: "Context", param: "Parameter", incomplete: str) -> "list[CompletionItem]":
    """The rules and keys that `explain` has a page for."""
    from grpo_recipes.explain.pages import known_ids
    from grpo_recipes.schemas.fast_accept import recipe_keys

    return _beginning([*known_ids(), *recipe_keys()], incomplete)


def shipped_names(ctx: "Context", param: "Parameter", incomplete: str) -> "list[CompletionItem]":
    """The shipped recipes that `init` writes."""
    from grpo_recipes.takeover.smollm2_recipe import NAME
    from grpo_recipes.yaml.parents import shipped_files

    return _beginning([*shipped_files(), NAME], incomplete)


def keys_to_set(ctx: "Context", param: "Parameter", incomplete: str) -> "list[CompletionItem]":
    """The keys of a recipe, followed by =."""
    from grpo_recipes.schemas.fast_accept import recipe_keys

    return _beginning([f"{key}=" for key in recipe_keys() if "." in key], incomplete)


def acceptable_rules(ctx: "Context", param: "Parameter", incomplete: str) -> "list[CompletionItem]":
    """The rules whose errors --accept takes."""
    from grpo_recipes.rules.catalog import rules

    return _beginning([rule.id for rule in rules() if why_not_accepted(rule.id) is None], incomplete)


def first_words(commands: "list[CompletionItem]", incomplete: str) -> "list[CompletionItem]":
    """Commands and recipes, since either may come first; if none matches, any file or folder."""
    import glob

    from click.shell_completion import CompletionItem

    recipes = [path for end in ("yaml", "yml") for path in sorted(glob.glob(f"{glob.escape(incomplete)}*.{end}"))]
    return [CompletionItem(incomplete, type="file"), *commands, *map(CompletionItem, recipes)]


def _beginning(words: list[str], incomplete: str) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


# Rules whose errors no patched library can fix, with the reason.
NEVER = {
    "DAT001": "a run needs its data",
    "MDL001": "a run needs its model",
    "RWD001": "a run needs its reward",
    "STK010": "a missing package cannot be patched",
    "TOK001": "a run needs its chat template",
}
SHIMS = {
    "SHM024": "shims.equal_rewards",
    "SHM025": "shims.less_padding",
    "SHM032": "shims.unscored_completions",
    "SHM033": "shims.cache_keyword",
}
"""Rules whose shim is optional, and the shim."""
TRUST = "TRU"
"""Prefixes of the rules that limit what a recipe may do to a machine."""


def why_not_accepted(rule: str) -> str | None:
    """Why a rule's errors cannot be accepted, None if they can."""
    from grpo_recipes.contract.findings.wording import nearest_words
    from grpo_recipes.rules.catalog import rules

    if rule.startswith(TRUST):
        return "it limits what a recipe may do to this machine, which no library changes, so it stays an error"
    if rule in NEVER:
        return f"{NEVER[rule]}, so it stays an error"
    known_rule = next((known_rule for known_rule in rules() if known_rule.id == rule), None)
    if known_rule is not None and (known_rule.check is not None or rule in SHIMS):
        return None
    if known_rule is not None:
        return "this rule decides a value and reports no errors"
    from grpo_recipes.explain.pages import known_ids  # only needed for a refusal

    if rule not in known_ids():
        near = nearest_words(rule, known_ids(), cutoff=0.7)
        return f"there is no such rule{f'; the nearest is {near[0]}' if near else ''}"
    return f"only rules that judge the recipe can be accepted; see grpo-run explain {rule}"
