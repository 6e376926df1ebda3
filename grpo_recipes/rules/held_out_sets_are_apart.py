"""Held-out sets differ from each other, and with several sets the recipe names the deciding set.

`evaluation.sets` defines sets by name, so the keys of a single set next to it would define another set without a name.
Names become parts of file names and metrics. Two equal sets measure the same thing twice. `keep_best` and `stop_after`
need a single number: with several sets, `decided_by` names the set whose reward they use. If all rewards of a set have
weight 0, its reward is 0 at each step, so the first evaluation would be the best.
"""

import re
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.training_rows import DECIDED_BY, SETS, held_out_sets, rewards_of_set
from grpo_recipes.rules.passing_is_defined import reward_names_of

ID = "EVL008"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
OF_ONE_SET = ("path", "reasoning_gym", "name", "split", "max_rows")


def check(context: Context) -> Iterator[Finding]:
    if not context.has_section("evaluation"):
        return
    sets, decides = list(context.mapping(SETS)), context.value(DECIDED_BY)
    if decides is not None and decides not in sets:
        nearest = nearest_words(str(decides), sets, cutoff=0.5)
        because = f"evaluation.sets has {', '.join(sets)}" if sets else "evaluation has one set, without a name"
        better = nearest[0] if nearest else sets[0] if sets else None
        yield context.wrong(f"no set of held-out rows is called {decides}", DECIDED_BY, because, better)
    if not sets:
        return
    yield from _beside(context, sets)
    yield from _names(context, sets)
    yield from _twice(context)
    yield from _rewards(context)
    keys = [f"evaluation.{key}" for key in ("keep_best", "stop_after") if context.value(f"evaluation.{key}")]
    if keys and decides is None and len(sets) > 1:
        message = f"{' and '.join(keys)} need{'s' * (len(keys) == 1)} to know which set decides"
        because = f"there are {len(sets)}: {', '.join(sets)}"
        fix = f"decided_by: {sets[0]}, or another set"
        yield context.finding(message, keys[0], because, fix=fix)


def _beside(context: Context, sets: list[str]) -> Iterator[Finding]:
    for key in OF_ONE_SET:
        whole = f"evaluation.{key}"
        under = [name for name in context.settings if name == whole or name.startswith(f"{whole}.")]
        if any(context.is_given(name) and context.value(name) is not None for name in under):
            message = f"evaluation has both {key} and sets"
            because = f"{key} belongs to a single set; here {', '.join(sets)} have their own"
            fix = f"move {key} into one of the sets"
            yield context.finding(message, under[0], because, fix=fix)


def _names(context: Context, sets: list[str]) -> Iterator[Finding]:
    for name in sets:
        if NAME.fullmatch(name) is None:
            message = f"a set cannot be called {name!r}"
            because = "the name is part of file names and metrics: at most 64 letters, digits, _ and -"
            mark = context.source.mark(("evaluation", "sets", name))
            yield context.finding(message, SETS, because, fix="a name such as gsm8k", mark=mark)
    for index, name in enumerate(sets):
        other = next((earlier for earlier in sets[:index] if earlier.lower() == name.lower()), None)
        if other is not None:
            message = f"{name} and {other} differ only in upper and lower case"
            mark = context.source.mark(("evaluation", "sets", name))
            because = "the names are parts of file names, and some file systems ignore case"
            yield context.finding(message, SETS, because, fix=f"a name other than {other}", mark=mark)


def _twice(context: Context) -> Iterator[Finding]:
    sets = context.mapping(SETS)
    for index, (name, own) in enumerate(sets.items()):
        other = next((earlier for earlier in list(sets)[:index] if sets[earlier] == own), None)
        if other is not None:
            message = f"{name} is the same as {other}"
            mark = context.source.mark(("evaluation", "sets", name))
            because = "all their keys have the same values"
            yield context.finding(message, SETS, because, fix="a different path or split, or remove one", mark=mark)


def _rewards(context: Context) -> Iterator[Finding]:
    names = reward_names_of(context)
    each = zip(names, context.items("rewards"), strict=False)
    without_weight = {name for name, reward in each if reward.get("weight") == 0}
    for name, of_set in held_out_sets(context):
        judging = rewards_of_set(of_set)
        if judging and without_weight.issuperset(judging):
            message = f"{name}: the weight of {' and '.join(dict.fromkeys(judging))} is 0"
            because = "the reward of a set is a weighted sum, so it is 0 whatever the model answers"
            fix = "add a reward with a weight to the set"
            mark = context.source.mark(("evaluation", "sets", name, "rewards"))
            yield context.finding(message, SETS, because, fix=fix, mark=mark)
        for index, reward in enumerate(judging):
            path = ("evaluation", "sets", name, "rewards", index)
            if reward in judging[:index]:
                message, mark = f"{name}: rewards has {reward} twice", context.source.mark(path)
                yield context.finding(
                    message, SETS, "each reward judges a set once", fix=f"remove one {reward}", mark=mark
                )
            elif names and reward not in names:
                near = nearest_words(reward, names, cutoff=0.5)
                because = f"the rewards are {', '.join(names)}"
                better = near[0] if near else names[0]
                patch = [Patch(path, better)]
                message, mark = f"{name}: no reward is called {reward}", context.source.mark(path)
                yield context.finding(message, SETS, because, fix=f"use {better} instead", patch=patch, mark=mark)
