"""The recipe sets `evaluation.passes`, or only one choice is possible.

A completion passes if a reward is high enough. If the only reward is a function, the threshold is 1.0, which the
shipped rewards give for a right answer. With several rewards, one may judge the answer and others its form or length,
and neither a reward model's logit nor a judge's score has a natural threshold, so you have to choose.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.rules._shared.context import Context, decided
from grpo_recipes.rules._shared.said_tools import read_environments, said_code
from grpo_recipes.rules._shared.settings import Setting
from grpo_recipes.rules._shared.training_rows import SETS, held_out_sets, judged_by
from grpo_recipes.user_files.reward_imports import reward_names

ID = "EVL004"
PASSES, REWARD = "evaluation.passes", "evaluation.passes.reward"
OWNS = (PASSES,)
RIGHT = 1.0


def decide(context: Context) -> Iterator[Setting]:
    is_asked = context.has_section("evaluation") and bool(context.value("evaluation.pass_at"))
    if is_asked and not context.value(SETS) and REWARD not in context.settings:
        value = what_passes(context)
        if value is not None:
            yield decided(PASSES, value, "the only reward, and its value for a right answer")


def what_passes(context: Context) -> dict[str, object] | None:
    """When a completion of a set passes: as written, else by its only reward; None if neither applies."""
    if REWARD in context.settings:
        return {"reward": context.value(REWARD), "at_least": context.value(f"{PASSES}.at_least")}
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
        return
    named = context.text(REWARD)
    if named not in names:
        nearest = nearest_words(named, names, cutoff=0.5)
        because = f"the rewards{f' of {name}' if name and judged_by(context) else ''} are {', '.join(names)}"
        yield context.wrong(f"no reward is called {named}", REWARD, because, nearest[0] if nearest else names[0])


def reward_names_of(context: Context) -> list[str]:
    """The names of all rewards, with those of environments that have one."""
    value = context.value("rewards")
    rewards = value if isinstance(value, list) else []
    own = [name for name, found in read_environments(context).items() if "get_reward" in found.methods]
    said = said_code(context, "environment")
    own += [] if said is None or said.path else [said.name]
    return [*reward_names(rewards), *own]


def _names(context: Context) -> tuple[list[str], bool]:
    """The names of the rewards that judge the rows, and whether one of them is a model."""
    judging = judged_by(context)
    names = [name for name in reward_names_of(context) if not judging or name in judging]
    each = zip(reward_names_of(context), context.items("rewards"), strict=False)
    return names, any(
        reward.get("model") is not None or reward.get("judge") is not None for name, reward in each if name in names
    )
