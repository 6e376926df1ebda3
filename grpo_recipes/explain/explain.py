"""`explain`: the page of an id, and the page of a key."""

import json

from grpo_recipes.contract.findings.finding import dotted
from grpo_recipes.explain.examples import Example, examples
from grpo_recipes.explain.key_page import field_page, key_page
from grpo_recipes.explain.pages import known_ids
from grpo_recipes.explain.tasks import task_list, task_page
from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.facts.facts import Facts
from grpo_recipes.facts.released.reasoning_gym import TABLE
from grpo_recipes.nearest import nearest_words
from grpo_recipes.resolve.resolve import Resolution
from grpo_recipes.rules.catalog import rules
from grpo_recipes.schemas.keys import keys_named, recipe_keys
from grpo_recipes.schemas.other_names import key_row


def explain(word: str, facts: Facts) -> str | None:
    """The page of an id or a key, None if it does not exist."""
    page = known_ids().get(word.upper())
    if page is not None:
        return id_page(word.upper(), page)
    if word == TABLE:
        return task_list()
    key = word if word in recipe_keys() else next(iter(keys_named(word)), None)
    if key is not None:
        return key_page(key, facts)
    if word.removeprefix("dataset.").startswith(f"{TABLE}."):
        return task_page(word.rpartition(".")[2])
    return field_page(word.removeprefix("trl."), facts) or _page_of_another_name(word, facts)


def _page_of_another_name(word: str, facts: Facts) -> str | None:
    """The page of the key for another program's name, or why it has none."""
    section, _, name = word.rpartition(".")
    row = key_row(section, name)
    if row is None:
        return None
    if "home" not in row:
        return f"{word}: {row['because']}\n\n{row['instead'].replace('remove it', f'remove {name}', 1)}"
    page = explain(row["home"], facts) or f"write it as {row['home']}"
    return f"{word} is a name of {row['tools']}{': ' * ('differs' in row)}{row.get('differs', '')}\n\n{page}"


def id_page(rule_id: str, page: str) -> str:
    """What a rule checks and why, an example with its output, the fix, and the proof."""
    parts = [f"{rule_id}\n\n{page}"]
    shown = examples().get(rule_id, Example())
    if shown.said:
        where = f", on {shown.stack}" if shown.stack else ""
        parts.append(f"Example{where}:\n\n{_indented(shown.recipe or '# any recipe')}")
        parts.append(_indented(shown.said))
        if shown.fixed:
            parts.append(f"Fixed:\n\n{_indented(shown.fixed)}")
    rule = next((each for each in rules() if each.id == rule_id), None)
    if rule is not None and rule.applies_to:
        parts.append("For: " + ", ".join(f"{name} {window}" for name, window in rule.applies_to.items()))
    if shown.proved_by:
        parts.append(f"Proved by: {shown.proved_by}")
    return "\n\n".join(parts)


def set_here(key: str, resolution: Resolution) -> str:
    """The value of a key in a recipe, and what set it; "" for a key that its plan does not have."""
    context = resolution.context
    if context is None:
        return ""
    names = (key, key.removeprefix("trl."), f"GRPOConfig.{key.removeprefix('trl.')}")
    settings = context.settings.values()
    found = next((each for each in settings if each.key in names or (each.path and dotted(each.path) in names)), None)
    if found is None:
        return ""
    origin = f"{found.origin}: {found.why}" if found.why else found.origin
    return f"in {resolution.file}: {json.dumps(found.value, default=str)} ({origin})"


def nearest(word: str) -> str | None:
    """The nearest id or key to an unknown word."""
    names = [*known_ids(), *recipe_keys(), *classified_fields()]
    return next(iter(nearest_words(word, names, cutoff=0.6)), None)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.rstrip("\n").split("\n"))
