"""A reward gets the columns that it reads.

A shipped reward reads named columns, e.g. `solution`. So does a judge's prompt, a function whose parameter has no
default, and one whose body always reads `kwargs["solution"]`. They come from `dataset.columns` or from the data set's
own columns, which the rule reads from local .jsonl and .csv files. A missing one raises TypeError or KeyError at the
first reward, after the first generation. With an `environment` a function can also read `environments`, the objects of
its completions. TRL before 0.18 passes no `completion_ids`, which rewards that count tokens need.
"""

import ast
import os
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.contract.findings.wording import OF_THE_TRAINER, without_parameters
from grpo_recipes.contract.prompt_shape import PREFILLS
from grpo_recipes.facts.reward_keywords import columns_no_reward_gets, not_passed
from grpo_recipes.rewards.catalog import TOKENS, shipped_reward
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.training_rows import (
    SETS,
    columns_at,
    columns_for_rewards,
    held_out_sets,
    own_columns,
    rewards_of_set,
)
from grpo_recipes.rules.judge_can_be_asked import judge_columns
from grpo_recipes.user_files.functions.called_definition import called_definition
from grpo_recipes.user_files.functions.definitions import CALLED_WITH, Definition, function_of
from grpo_recipes.user_files.local_files import name_list
from grpo_recipes.user_files.reward_imports import names_module, reward_names

ID = "RWD002"
OBJECTS = "environments"
"""Keywords that TRL passes only with an environment."""
# Usual names of columns with the right answer.
_ANSWERS = ("answer", "final_answer", "gold", "ground_truth", "solution", "target")


def _available(context: Context) -> frozenset[str] | None:
    """The columns that rewards receive; None if the data set's own are unknown."""
    own = own_columns(context)
    return None if own is None else columns_for_rewards(context, own) | frozenset(context.mapping("dataset.columns"))


def columns_needed(context: Context, index: int, reward: dict[str, object]) -> tuple[str, list[str]]:
    """The reward's name and the columns that it needs."""
    if isinstance(judge := reward.get("judge"), dict):
        return "judge", judge_columns(judge)
    shipped = shipped_reward(str(reward.get("name")))
    if shipped is not None:
        return str(reward["name"]), [c for c in shipped.columns if c not in _bound(reward)]
    name = str(reward.get("python") or "").rpartition(":")[2]
    passed = {*CALLED_WITH, PREFILLS, *_objects(context)}
    return name, [p for p in _keywords_needed(context, index, reward) if p not in passed]


def _objects(context: Context) -> tuple[str, ...]:
    return (OBJECTS,) if context.value("environment.python") else ()


def _keywords(context: Context, index: int, reward: dict[str, object]) -> list[str]:
    """TRL's own keywords that a function needs."""
    shipped = shipped_reward(str(reward.get("name")))
    if shipped is not None:
        return [TOKENS] if shipped.reads_tokens else []
    return [p for p in _keywords_needed(context, index, reward) if p in CALLED_WITH]


def _bound(reward: dict[str, object]) -> set[str]:
    options = reward.get("options")
    return set(options) if isinstance(options, dict) else set()


def _keywords_needed(context: Context, index: int, reward: dict[str, object]) -> list[str]:
    """The keywords that a python function needs and that no option binds."""
    target = reward_function(context, index, reward)
    if target is None or isinstance(target.node, ast.ClassDef):
        return []
    from grpo_recipes.user_files.functions.reward_body import keywords_read

    function = function_of(target.node)
    read = [key for key in keywords_read(target.node) if key not in function.parameters]
    return [p for p in dict.fromkeys([*function.required, *read]) if p not in {*_bound(reward), *target.bound}]


def reward_function(context: Context, index: int, reward: dict[str, object]) -> Definition | None:
    """The function that TRL calls for a reward's `python`; None for others, or if its source does not show it."""
    if reward.get("python") is None:
        return None
    if names_module(str(reward["python"])):
        from grpo_recipes.user_files.functions.installed import package_reward

        of_package = package_reward(context.stack, str(reward["python"]))
        target = None if of_package.is_factory else of_package.found
    else:
        file, _, name = str(reward["python"]).rpartition(":")
        directory = context.source.directory(("rewards", index, "python"))
        try:
            target = called_definition(os.path.normpath(os.path.join(directory, file)), name)
        except (OSError, SyntaxError, ValueError):
            return None
    if not isinstance(target, Definition) or isinstance(target.node, ast.ClassDef) or target.decorators:
        return None
    return target


def check(context: Context) -> Iterator[Finding]:
    available = _available(context)
    newer = not_passed(context.stack.version("trl"))
    for index, reward in enumerate(context.items("rewards")):
        name, needed = columns_needed(context, index, reward)
        for keyword in [keyword for keyword in needed if keyword in columns_no_reward_gets()]:
            message = f"reward {name} reads {keyword}, which TRL does not pass"
            because = f"TRL passes {keyword}s for the whole batch"
            fix = f"call the parameter {keyword}s"
            yield context.finding(message, "rewards", because, fix=fix, mark=context.source.mark(("rewards", index)))
        missing = [
            c for c in needed if available is not None and c not in available and c not in columns_no_reward_gets()
        ]
        if available is not None and missing:
            is_shipped = shipped_reward(name) is not None
            others = [c for c in missing if c not in OF_THE_TRAINER]
            # A wrong column silently trains on wrong answers, so the fix names one only if its name says what it is.
            likely = [column for column in sorted(available) if column in _ANSWERS]
            is_certain = len(missing) == len(others) == len(likely) == 1 and not (
                is_shipped and missing[0] not in _ANSWERS
            )
            template = f"{{{{ {likely[0]} }}}}" if is_certain else "{{ ... }}"
            which = "" if is_certain else ", with the column that holds it"
            fixes = [f'columns: {{{others[0]}: "{template}"}} under dataset{which}'] if others else []
            passed = [*(keyword for keyword in CALLED_WITH if keyword not in newer), *_objects(context)]
            yield context.finding(
                f"reward {name} reads column {name_list(missing)}, which the data does not have"
                if others == missing
                else f"reward {name} reads {name_list(missing)}, which TRL does not pass",
                "rewards",
                f"TRL passes {', '.join(passed)} and the columns {name_list(sorted(available))}",
                fix="; ".join(filter(None, (without_parameters(missing), *fixes))),
                patch=[Patch(("dataset", "columns", missing[0]), template)] if is_certain else [],
                mark=context.source.mark(("rewards", index)),
            )
        for keyword in [k for k in _keywords(context, index, reward) if k in newer]:
            yield _newer(context, index, name, keyword, newer[keyword])
    if context.has_section("evaluation") and context.value(SETS):
        yield from _of_sets(context)


def _of_sets(context: Context) -> Iterator[Finding]:
    """The findings for held-out sets whose local files lack what the rewards that judge them read."""
    names = reward_names(context.items("rewards"))
    for name, of_set in held_out_sets(context):
        own = columns_at(of_set, "evaluation.path")
        available = (
            None if own is None else columns_for_rewards(of_set, own) | frozenset(of_set.mapping("dataset.columns"))
        )
        judges = rewards_of_set(of_set) or names
        for index, reward in enumerate(context.items("rewards") if available is not None else ()):
            missing = [
                c
                for c in columns_needed(context, index, reward)[1]
                if c not in (*(available or ()), *columns_no_reward_gets())
            ]
            if names[index] in judges and missing:
                others = [other for other in judges if other != names[index]]
                narrower = f"; or rewards: [{', '.join(others)}], without this reward" if others else ""
                yield of_set.finding(
                    f"reward {names[index]} reads column {name_list(missing)}, which held-out set {name} does not have",
                    "evaluation.path",
                    f"TRL passes {name_list(sorted(available or ()))}",
                    fix=f'columns: {{{missing[0]}: "{{{{ ... }}}}"}} in the set{narrower}',
                )


def _newer(context: Context, index: int, name: str, keyword: str, releases: str) -> Finding:
    message = f"reward {name} reads {keyword}, which trl {context.stack.version('trl')} does not pass"
    because = f"trl {releases} passes it"
    own = "" if shipped_reward(name) is not None else f"{keyword}=None, so that the function runs without it, or "
    fix = f"{own}trl=={releases.removeprefix('>=')}"
    return context.finding(message, "rewards", because, fix=fix, mark=context.source.mark(("rewards", index)))
