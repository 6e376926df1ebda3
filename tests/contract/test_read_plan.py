"""plan.json read again: every key, each of its type, named where it is not so."""

import copy
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "render"))
from render_cases import CASES
from support.plans import small_plan

from grpo_recipes.contract.plan import to_json
from grpo_recipes.contract.plan_sections import EnvironmentClass, Rollout, Tool
from grpo_recipes.contract.read_plan import NotAPlan, from_json, plan_of

# What is free in them is said by the recipe, the stack or a library.
FREE = ("job", "recipe", "stack", "shims", "verified", "arguments", "deepspeed", "expressible")
FREE_MAPS = {"kwargs", "engine", "arguments", "environment", "imports", "files", "columns", "job"}


@pytest.mark.parametrize("case", CASES)
def test_a_plan_is_the_same_when_it_was_read_again(case: str) -> None:
    assert from_json(to_json(CASES[case])) == CASES[case]
    assert plan_of(json.loads(to_json(CASES[case]))) == CASES[case]


def _places(content: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    for key, value in content.items() if isinstance(content, dict) else enumerate(content):
        if place or key not in FREE:
            yield (*place, key)
            if isinstance(value, dict | list):
                yield from _places(value, (*place, key))


def _at(content: Any, place: tuple[str | int, ...]) -> Any:
    for part in place:
        content = content[part]
    return content


def test_each_key_that_is_missing_is_named() -> None:
    whole = json.loads(to_json(CASES["server_cpu"]))
    fields = [
        place for place in _places(whole) if isinstance(place[-1], str) and place[0] not in ("environment", "plan")
    ]
    for place in fields:
        content = copy.deepcopy(whole)
        del _at(content, place[:-1])[place[-1]]
        with pytest.raises(NotAPlan, match=str(place[-1])):
            plan_of(content)
    assert len(fields) > 60


def test_a_value_of_another_type_is_named() -> None:
    whole = json.loads(to_json(CASES["server_cpu"]))
    refused = 0
    for place in _places(whole):
        content = copy.deepcopy(whole)
        before = _at(content, place)
        _at(content, place[:-1])[place[-1]] = {"a": [1]} if not isinstance(before, dict) else "text"
        try:
            plan_of(content)
        except NotAPlan as problem:
            assert str(place[-1]) in str(problem), place
            refused += 1
    assert refused > 60


@pytest.mark.parametrize("content", [None, [], "plan", {}, {"plan": 2}, {"plan": "1"}], ids=str)
def test_what_is_no_plan_of_this_format_is_refused(content: object) -> None:
    with pytest.raises(NotAPlan, match="plan format"):
        plan_of(content)


def test_true_is_no_number_and_a_number_is_no_word() -> None:
    whole = json.loads(to_json(CASES["single_cpu"]))
    for key, value in (("num_processes", True), ("num_processes", 1.0), ("strategy", "zero9"), ("device", 0)):
        content = copy.deepcopy(whole)
        content["world"][key] = value
        with pytest.raises(NotAPlan, match=f"world.{key} is"):
            plan_of(content)


def test_a_plan_of_an_older_release_has_defaults_for_what_came_later() -> None:
    content = json.loads(to_json(CASES["single_cpu"]))
    for key in ("job", "vllm", "made_by", "accepted", "verified", "tools", "environment_class", "rollout"):
        del content[key]
    assert from_json(json.dumps(content)) == CASES["single_cpu"]
    with pytest.raises(NotAPlan, match="it lacks vllm, accepted, made_by, verified, job, tools, environment_class,"):
        plan_of(content)


def test_tools_an_environment_and_a_rollout_are_read_as_they_were_written() -> None:
    pinned = {"path": "/r/tools.py", "sha256": "ab", "imports": {"words.py": "cd"}}
    tool = Tool("calculate", "tools.py:calculate", **pinned, is_async=True, timeout=2.5)
    game = EnvironmentClass("Game", "tools.py:Game", **pinned, config={"most": 3})
    plan = small_plan(tools=(tool,), environment_class=game, rollout=Rollout("mine", "tools.py:mine", **pinned))
    assert plan_of(json.loads(to_json(plan))) == plan
