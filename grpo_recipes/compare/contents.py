"""Represents model, data, rewards and tools of two plans by their contents, if both plans know them.

A file or folder is represented by its digest and a hub repository by its commit if both plans have one; else by name.
"""

import dataclasses
from typing import Any

from grpo_recipes.contract.plan import Plan, Reward
from grpo_recipes.contract.plan_sections import EnvironmentClass, Rollout, Tool

Code = Tool | EnvironmentClass | Rollout
Values = dict[str, Any]
# The objects that digests identify, and the values a plan has only for files that it could read.
FOLLOWS = ("files", "rows", "chat_template_sha256")


def contents(a: Plan, b: Plan) -> tuple[Values, Values]:
    """The values of both plans by key, in which equal contents are equal values."""
    sides: tuple[Values, Values] = ({}, {})
    _enter(sides, "model", _alike(dataclasses.asdict(a.model), dataclasses.asdict(b.model)))
    data = [plan.training_data for plan in (a, b)]
    for where in dict.fromkeys([*data[0], *data[1]]):
        if where in data[0] and where in data[1]:
            _enter(sides, where, _alike(*(dataclasses.asdict(of_plan[where]) for of_plan in data)))
        else:
            here = where in data[1]
            sides[here][where] = data[here][where].path or data[here][where].source
    _enter(sides, "tokenizer", _templates(a, b))
    _enter(sides, "ancestor", (_starting_point(a, b), _starting_point(b, a)))
    rewards = [{reward.name: reward for reward in plan.rewards} for plan in (a, b)]
    for name in dict.fromkeys([*rewards[0], *rewards[1]]):
        ours, theirs = rewards[0].get(name), rewards[1].get(name)
        if ours is None or theirs is None:
            sides[ours is None][f"rewards.{name}"] = _in_words(ours or theirs)
        else:
            _enter(sides, f"rewards.{name}", _rewards(ours, theirs))
    _enter_tools(sides, a, b)
    return sides


def _enter_tools(sides: tuple[Values, Values], a: Plan, b: Plan) -> None:
    """Adds tools, environment and rollout, each by the content of its file; tools also by their order."""
    tools = [{tool.name: tool for tool in plan.tools} for plan in (a, b)]
    if tools[0].keys() == tools[1].keys():
        for values, own in zip(sides, tools, strict=True):
            values |= {"tools": list(own)} if own else {}
    for name in dict.fromkeys([*tools[0], *tools[1]]):
        _enter_code(sides, f"tools.{name}", tools[0].get(name), tools[1].get(name))
    environments = [plan.all_environments for plan in (a, b)]
    for name in dict.fromkeys([*environments[0], *environments[1]]):
        _enter_code(sides, name, environments[0].get(name), environments[1].get(name))
    _enter_code(sides, "rollout", a.rollout, b.rollout)


def _enter_code(sides: tuple[Values, Values], section: str, ours: Code | None, theirs: Code | None) -> None:
    if ours is None or theirs is None:
        for values, code in zip(sides, (ours, theirs), strict=True):
            values |= {} if code is None else {section: code.target}
        return
    unsaid = {"name", "path"}
    _enter(sides, section, (_without(dataclasses.asdict(ours), unsaid), _without(dataclasses.asdict(theirs), unsaid)))


def _enter(sides: tuple[Values, Values], section: str, pair: tuple[Values, Values]) -> None:
    for values, own in zip(sides, pair, strict=True):
        for name, value in own.items():
            if name not in FOLLOWS and value not in (None, {}, ""):
                values |= _flat(f"{section}.{name}", value)


def _flat(key: str, value: object) -> Values:
    """The entries of a map as separate values, so that each difference is named."""
    if not isinstance(value, dict):
        return {key: value}
    return {name: leaf for below, item in value.items() for name, leaf in _flat(f"{key}.{below}", item).items()}


def _alike(ours: Values, theirs: Values) -> tuple[Values, Values]:
    """Both sides without equivalent values, and without those that only one side knows."""
    unsaid: set[str] = set()
    if _both("sha256", ours, theirs):
        unsaid.add("path")
    else:
        unsaid.add("sha256")
    if _both("commit", ours, theirs):
        unsaid.add("revision")
    else:
        unsaid.add("commit")
        if ours.get("revision") != theirs.get("revision") and _is_revision_of_other(ours, theirs):
            unsaid.add("revision")
    return _without(ours, unsaid), _without(theirs, unsaid)


def _both(name: str, ours: Values, theirs: Values) -> bool:
    return ours.get(name) is not None and theirs.get(name) is not None


def _is_revision_of_other(ours: Values, theirs: Values) -> bool:
    """Whether one side's revision is the commit that the other's resolved to."""
    return any(
        side.get("commit") is not None and side["commit"] == other.get("revision")
        for side, other in ((ours, theirs), (theirs, ours))
    )


def _without(values: Values, names: set[str]) -> Values:
    return {name: value for name, value in values.items() if name not in names}


def _templates(a: Plan, b: Plan) -> tuple[Values, Values]:
    """The chat templates by their texts, or by the files that the recipes name."""
    digests = [plan.tokenizer.chat_template_sha256 for plan in (a, b)]
    if None in digests:
        files = [plan.tokenizer.chat_template_path for plan in (a, b)]
        return {"chat_template_path": files[0]}, {"chat_template_path": files[1]}
    return {"chat_template": digests[0]}, {"chat_template": digests[1]}


def _starting_point(plan: Plan, other: Plan) -> Values:
    """The starting point of a plan: its weights, or its path if not both plans know the weights."""
    own, others = plan.extends or plan.ancestor, other.extends or other.ancestor
    if own is None:
        return {}
    if own.weights_sha256 is not None and (others is None or others.weights_sha256 is not None):
        return {"use": own.use, "weights_sha256": own.weights_sha256}
    return {"use": own.use, "commit": own.commit, "path": None if own.commit else own.path}


def _in_words(reward: Reward | None) -> str:
    """A reward that the other side lacks."""
    assert reward is not None
    return f"{reward.kind} {reward.target}, weight {reward.weight}"


def _rewards(ours: Reward, theirs: Reward) -> tuple[Values, Values]:
    """Both rewards by what they compute; their common name is in the key."""
    mine, others = dataclasses.asdict(ours), dataclasses.asdict(theirs)
    if ours.package is not None and theirs.package is not None:
        # Values unknown on one side's stack do not count as a difference.
        for name in [key for key in mine["package"] if None in (mine["package"][key], others["package"][key])]:
            del mine["package"][name], others["package"][name]
    known = _both("sha256", mine, others)
    unsaid = {"name", "path"} if known else {"name", "sha256"}
    if known and ours.kind == theirs.kind == "model":
        unsaid.add("target")
    return _without(mine, unsaid), _without(others, unsaid)
