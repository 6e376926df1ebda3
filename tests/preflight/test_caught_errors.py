"""A constant reward is asked for the exceptions that it catches itself."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from preflight_runs import QUICKSTART, Answer

from grpo_recipes.worker.preflight._shared.reward_seen import CAUGHT, Call, RewardSeen
from grpo_recipes.worker.preflight.caught_errors import CaughtErrors
from grpo_recipes.worker.preflight.checks import rewards_catch_no_mistakes

SOURCE = """import json
def inner(text):
    return json.loads(text)["a"]
def mine(completions):
    values = []
    for text in completions:
        try:
            values.append(inner(text))
        except Exception:
            values.append(0.0)
    return values
"""


def _counts(tmp_path: Path, completions: list[Any]) -> list[tuple[str, str, int]]:
    file = tmp_path / "mine.py"
    file.write_text(SOURCE)
    names: dict[str, Any] = {}
    exec(compile(SOURCE, str(file), "exec"), names)
    with CaughtErrors(str(tmp_path)) as errors:
        names["mine"](completions)
    return errors.counts


def test_an_exception_counts_once_at_the_users_innermost_line(tmp_path: Path) -> None:
    place = 'mine.py:3: return json.loads(text)["a"]'
    not_json = ("JSONDecodeError: Expecting value: line 1 column 1 (char 0)", place, 2)
    assert _counts(tmp_path, ["", "x", '{"a": 1}']) == [not_json]
    (wrong,) = _counts(tmp_path, [[], []])
    assert wrong[0].startswith("TypeError: the JSON object must be str") and wrong[1:] == (place, 2)


@pytest.mark.parametrize(
    ("caught", "values", "is_named"),
    [
        (("TypeError: must be str, not list", "a.py:1: x", 4), [0.0] * 4, True),
        (("ModuleNotFoundError: No module named 'x'", "a.py:1: x", 1), [0.0] * 4, True),
        (("KeyError: 'gold'", "a.py:1: x", 4), [None] * 4, True),
        (("KeyError: 'gold'", "a.py:1: x", 2), [0.0] * 4, False),
        (("JSONDecodeError: Expecting value", "a.py:1: x", 4), [0.0] * 4, False),
        (("AttributeError: 'NoneType' object has no attribute 'group'", "a.py:1: x", 4), [0.0] * 4, False),
        (("TypeError: must be str, not list", "a.py:1: x", 4), [0.0, 0.0, 0.0, 1.0], False),
    ],
)
def test_only_what_every_completion_raises_is_a_mistake(
    caught: tuple[str, str, int], values: list[float | None], is_named: bool
) -> None:
    entries = [(0, case) for case in ("gold", "empty", "words", "noise")]
    calls = (
        Call("all", "own", "values", entries, values),
        Call(CAUGHT, "own", "values", entries, values, caught=[caught]),
    )
    seen: Any = SimpleNamespace(rewards=[RewardSeen(0, "mine", "python", 1.0, calls)])
    assert bool([*rewards_catch_no_mistakes.check(seen)]) == is_named


@pytest.mark.stack
def test_a_reward_that_catches_its_own_mistake_is_named(
    tmp_path: Path, sums: Path, preflight: Callable[..., Answer]
) -> None:
    body = SOURCE.replace("def mine(completions):", "def mine(completions, **kwargs):")
    (tmp_path / "mine.py").write_text(body)
    recipe = {"extends": str(QUICKSTART), "rewards": [{"python": "mine.py:mine"}]}
    data = {"path": str(sums), "prompt": "{{ question }}", "columns": {}}
    (tmp_path / "recipe.yaml").write_text(json.dumps({**recipe, "dataset": data, "evaluation": None}))
    said = preflight("recipe.yaml", "--json").said()[("PFL060", "rewards[0]")]
    assert said[0].startswith("reward mine catches its own TypeError for every completion: the JSON object must be")
