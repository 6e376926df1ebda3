"""Rewards of every kind become what TRL takes, under the plan's names and with the plan's keywords."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worker_runs import planned_reward

from grpo_recipes.plan import Reward
from grpo_recipes.worker.reward_functions import load_rewards
from grpo_recipes.worker.stopped import Stopped

USER = """
from dataclasses import dataclass

@dataclass
class Scale:
    factor: float

def scaled(completions, *, factor=1.0, **kwargs):
    return [Scale(factor).factor * len(text) for text in completions]

async def later(completions, **kwargs):
    return [0.5 for _ in completions]
"""


def reward(target: str, **changes: Any) -> Reward:
    keys = planned_reward(target, **changes)
    del keys["path"]
    return Reward(**keys)


@pytest.fixture
def user(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(USER)
    return tmp_path


def test_a_shipped_reward_has_the_name_and_keywords_of_the_plan(user: Path) -> None:
    (loaded,) = load_rewards((reward("exact_match", name="same", kwargs={"ignore_case": True}),), user)
    assert not isinstance(loaded, str)
    assert loaded.__name__ == "same"
    assert loaded(prompts=["p"], completions=["A"], solution=["a"], completion_ids=[[1]]) == [1.0]


def test_a_column_of_the_data_does_not_win_over_the_recipe(user: Path, sha256_of_text: Callable[[str], str]) -> None:
    keys = {"kind": "python", "name": "s", "sha256": sha256_of_text(USER)}
    (loaded,) = load_rewards((reward("mine.py:scaled", **keys, kwargs={"factor": 2.0}),), user)
    assert not isinstance(loaded, str)
    assert loaded(completions=["abc"], factor=[100.0]) == [6.0]


def test_an_asynchronous_reward_stays_asynchronous(user: Path, sha256_of_text: Callable[[str], str]) -> None:
    keys = {"kind": "python", "name": "slow", "sha256": sha256_of_text(USER)}
    (loaded,) = load_rewards((reward("dir/mine.py:later", **keys),), user)
    assert asyncio.iscoroutinefunction(loaded)
    assert loaded.__name__ == "slow"
    assert asyncio.run(loaded(completions=["abc"])) == [0.5]


def test_a_reward_model_stays_the_id_it_is(user: Path) -> None:
    assert load_rewards((reward("org/judge", kind="model", name="judge"),), user) == ["org/judge"]


REFUSED = [
    pytest.param({"target": "mine.py:none"}, "has no function none", id="no function"),
    pytest.param({"target": "other.py:f"}, "does not exist", id="no file"),
    pytest.param({"sha256": "0" * 64}, "changed since the plan was made", id="digest"),
    pytest.param({"sha256": None}, "changed since the plan was made", id="no digest"),
    pytest.param({"kind": "shell"}, "none of shipped, python, model", id="kind"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_what_is_not_the_planned_reward_is_refused(
    changes: dict[str, Any], message: str, user: Path, sha256_of_text: Callable[[str], str]
) -> None:
    keys = {"target": "mine.py:scaled", "kind": "python", "sha256": sha256_of_text(USER), **changes}
    with pytest.raises(Stopped, match=message):
        load_rewards((reward(keys.pop("target"), **keys),), user)
