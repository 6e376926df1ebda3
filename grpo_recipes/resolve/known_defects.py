"""Lists the known defects of a stack's releases, grpo-run's remedy, and the nearest releases without them.

Sources: rules with APPLIES_TO for certain releases only, combinations that fail for some recipes in broken_pairs.json,
and everything else in known_defects.json.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from grpo_recipes.facts.broken_pairs import BrokenPair, broken_pairs, holds
from grpo_recipes.facts.released.requirements import nearest_outside
from grpo_recipes.facts.released.shipped import newest_release, table
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.resolve.engine import applies
from grpo_recipes.rules.catalog import Rule, rules
from grpo_recipes.rules.known_defects_are_not_met import ID as MET
from grpo_recipes.stack.stack import Stack

SHIMS = "shims."


@dataclass(frozen=True, slots=True)
class KnownDefect:
    """A known defect. rule: its page, None without one. what: one sentence. answer: grpo-run's remedy.

    without: the nearest releases without it, for every package that matters: "trl 0.16.0". until: when to remove a shim
    that no release makes unnecessary yet, "" for others.
    """

    rule: str | None
    what: str
    answer: str
    without: tuple[str, ...]
    until: str = ""


def known_defects(stack: Stack) -> list[KnownDefect]:
    """Every known defect of the stack that does not refuse all recipes; those that do are findings of the stack."""
    defects = [_of_rule(rule, stack) for rule in rules() if _is_of_some_releases(rule) and applies(rule, stack)]
    defects += [_of_pair(pair, stack) for pair in broken_pairs() if pair.when and pair.holds(stack)]
    defects += [
        KnownDefect(row["rule"], row["happens"], row["answer"], _without(row["packages"], stack))
        for row in table("known_defects")["defects"]
        if holds(row["packages"], stack)
    ]
    return defects


def _is_of_some_releases(rule: Rule) -> bool:
    """Whether the rule is a shim, or excludes the newest release of its package."""
    return bool(_shims(rule)) or any(
        (newest := newest_release(package)) is not None and not is_within(newest, window)
        for package, window in rule.applies_to.items()
    )


def _shims(rule: Rule) -> list[str]:
    return [key.removeprefix(SHIMS) for key in rule.owns if key.startswith(SHIMS)]


def _of_rule(rule: Rule, stack: Stack) -> KnownDefect:
    named = _shims(rule)
    if named:
        answer = f"repaired by the shim {', '.join(named)} if a recipe needs it"
    elif rule.decide is None:
        answer = "refused if it affects the recipe"
    else:
        answer = "avoided" if rule.check is None else "avoided, or refused if the recipe leaves no alternative"
    goes = re.search(r"\bIt can be removed when ([^.]+)\.", " ".join(rule.page.split()))
    return KnownDefect(rule.id, rule.title, answer, _without(rule.applies_to, stack), goes[1] if goes else "")


def _of_pair(pair: BrokenPair, stack: Stack) -> KnownDefect:
    asked = " and ".join(_condition_text(*condition) for condition in pair.when)
    works = tuple(" and ".join(f"{name} {version}" for name, version in way.items()) for way in pair.works)
    return KnownDefect(
        MET, f"{asked[0].upper()}{asked[1:]}: {pair.happens}.", "refused if it affects the recipe", works
    )


def _without(windows: Mapping[str, str], stack: Stack) -> tuple[str, ...]:
    outside = {package: nearest_outside(package, str(stack.version(package)), w) for package, w in windows.items()}
    return tuple(f"{package} {version}" for package, versions in outside.items() for version in versions)


def _condition_text(key: str, operator: str, value: object) -> str:
    """A condition on a recipe in words: "with use_vllm true", "without generation_kwargs"."""
    name = key.rpartition(".")[2]
    if value is None or (value is True and "." not in key):
        return f"{'without' if operator == '==' and value is None else 'with'} {name}"
    return f"with {name} {str(value).lower()}"
