"""The recipe sets `evaluation.passes`, or only one choice is possible.

A completion passes if a reward is high enough. If the only reward is a function, the threshold is 1.0, which the
shipped rewards give for a right answer. With several rewards, one may judge the answer and others its form or length,
and neither a reward model's logit nor a judge's score has a natural threshold, so you have to choose. A threshold that
the reward cannot reach, or always reaches, measures nothing.
"""

from collections.abc import Iterator
from typing import Any

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.rewards.ranges import reward_range
from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.said_tools import read_environments
from grpo_recipes.rules._shared.settings import Setting
from grpo_recipes.rules._shared.training_rows import SETS, held_out_sets, rewards_of_set
from grpo_recipes.user_files.reward_imports import reward_names

ID = "EVL004"
PASSES, REWARD, AT_LEAST = "evaluation.passes", "evaluation.passes.reward", "evaluation.passes.at_least"
OWNS = (PASSES,)
RIGHT = 1.0


def decide(context: Context) -> Iterator[Setting]:
    is_asked = context.has_section("evaluation") and bool(context.value("evaluation.pass_at"))
    if is_asked and not context.value(SETS) and REWARD not in context.settings:
        value = what_passes(context)
        if value is not None:
            yield rule_setting(PASSES, value, "the only reward, and its value for a right answer")


def what_passes(context: Context) -> dict[str, object] | None:
    """When a completion of a set passes: as written, else by its only reward; None if neither applies."""
    if REWARD in context.settings:
        return {"reward": context.value(REWARD), "at_least": context.value(AT_LEAST)}
    names, is_model = _names(context)
    return {"reward": names[0], "at_least": RIGHT} if len(names) == 1 and not is_model else None


def check(context: Context) -> Iterator[Finding]:
    of_all = context.settings.get(REWARD) if context.value(SETS) else None
    if of_all is not None:
        yield from check_set("", context)
    for name, of_set in held_out_sets(context):
        if not name and context.value(SETS):
            continue  # EVL008 reports it
        if of_all is None or of_set.settings.get(REWARD) is not of_all:
            yield from check_set(name, of_set)


def check_set(name: str, context: Context) -> Iterator[Finding]:
    """What is wrong with what passes in one set, or in a recipe where its name is ""."""
    names, _ = _names(context)
    if not names:
        return  # RWD007 reports it
    if REWARD not in context.settings:
        if context.value("evaluation.pass_at") and not context.mapping(PASSES) and not (name and what_passes(context)):
            several = len(names) > 1
            yield context.finding(
                f"pass_at needs passes, but {name or 'evaluation'} does not set it",
                "evaluation.path" if name else "evaluation.pass_at",
                f"each of {', '.join(names)} could decide which completions pass"
                if several
                else f"{names[0]} is a model or a judge, and its scores have no natural threshold",
                fix=f"passes: {{reward: {names[0]}, at_least: 1.0}}{', or another reward' if several else ''}",
            )
        elif context.value("evaluation.pass_at") and (passes := what_passes(context)):
            yield from _threshold(context, str(passes["reward"]), passes["at_least"])
        return
    named = context.text(REWARD)
    if named not in names:
        nearest = nearest_words(named, names, cutoff=0.5)
        because = f"the rewards{f' of {name}' if name and rewards_of_set(context) else ''} are {', '.join(names)}"
        yield context.wrong(f"no reward is called {named}", REWARD, because, nearest[0] if nearest else names[0])
    else:
        yield from _threshold(context, named, context.value(AT_LEAST))


def _threshold(context: Context, named: str, at_least: object) -> Iterator[Finding]:
    """The finding for a threshold that no completion reaches, or each one."""
    rewards = zip(reward_names_of(context), context.items("rewards"), strict=False)
    limits = next((_range(reward) for name, reward in rewards if name == named), None)
    if limits is None or not isinstance(at_least, int | float) or limits[0] < at_least <= limits[1]:
        return
    message = f"{'no' if at_least > limits[1] else 'every'} completion passes at_least {at_least:g}"
    because = f"{named} is from {limits[0]:g} to {limits[1]:g}"
    fix = f"at_least: a value above {limits[0]:g} and up to {limits[1]:g}"
    yield context.finding(message, AT_LEAST, because, fix=fix, severity="warning")


def _range(reward: dict[str, Any]) -> tuple[float, float] | None:
    """The lowest and highest value of a reward, None if unknown."""
    if isinstance(judge := reward.get("judge"), dict):
        return (0.0, 1.0) if judge.get("scale") is not None else None
    return reward_range(str(reward.get("name")), reward.get("options") or {})


def reward_names_of(context: Context) -> list[str]:
    """The names of all rewards, with those of environments that have one."""
    value = context.value("rewards")
    rewards = value if isinstance(value, list) else []
    own = [name for name, environment in read_environments(context).items() if "get_reward" in environment.methods]
    return [*reward_names(rewards), *own]


def _names(context: Context) -> tuple[list[str], bool]:
    """The names of the rewards that judge the rows, and whether one of them is a model."""
    judging = rewards_of_set(context)
    names = [name for name in reward_names_of(context) if not judging or name in judging]
    each = zip(reward_names_of(context), context.items("rewards"), strict=False)
    return names, any(
        reward.get("model") is not None or reward.get("judge") is not None for name, reward in each if name in names
    )
