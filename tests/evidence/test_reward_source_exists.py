"""RWD001: how TRL calls a reward function, and which it ships."""

import re
from importlib.metadata import version

import pytest
from library import Library

from grpo_recipes.facts.reward_keywords import rewards_of_trl
from grpo_recipes.facts.source.package_facts import package_folder
from grpo_recipes.rules.reward_source_exists import CALLED_WITH

pytestmark = pytest.mark.stack

ROWS = [{"prompt": f"{n}+1=", "solution": "2"} for n in range(8)]


def test_trl_passes_what_the_rule_says_and_every_column(library: Library) -> None:
    source = "def kept(**kwargs):\n    raise RuntimeError(' '.join(sorted(kwargs)))"
    answer = library.call("train", arguments={}, rewards=source, rows=ROWS)
    assert answer.raised == "RuntimeError"
    assert set(CALLED_WITH) | {"solution"} <= set(answer.text.split())


def test_trl_ships_the_rewards_that_are_known() -> None:
    folder = package_folder("trl")
    assert folder is not None
    source = (folder / "rewards" / "__init__.py").read_text(encoding="utf-8")
    names = set(re.findall(r'"((?:get_)?\w+_(?:reward|punishment))"', source))
    assert names == set(rewards_of_trl(version("trl")))


@pytest.mark.parametrize(
    ("signature", "text"),
    [
        pytest.param("completions", "unexpected keyword argument", id="no-keywords"),
        pytest.param("completions, /, **kwargs", "missing 1 required positional argument", id="by-position"),
        pytest.param("prompts, completions, solution", "unexpected keyword argument", id="known-columns-only"),
    ],
)
def test_another_signature_raises_after_the_first_generation(library: Library, signature: str, text: str) -> None:
    source = f"def reward({signature}):\n    return [0.0] * len(completions)"
    answer = library.call("train", arguments={}, rewards=source, rows=ROWS)
    assert (answer.stage, answer.raised) == ("train", "TypeError")
    assert text in answer.text


OBJECTS = {
    "import": "from trl.rewards import think_format_reward as _think\nr = _think",
    "call": "from trl.rewards import get_repetition_penalty_reward as _make\nr = _make(2)",
    "partial": "import functools as _f\ndef _s(completions, scale=1.0, **_):\n    return [scale] * len(completions)\n"
    "r = _f.partial(_s, scale=0.5)",
    "lambda": "r = lambda completions, **kwargs: [0.5 for _ in completions]",
    "class": "class _M:\n    def __new__(cls, completions, **_):\n        return [0.5 for _ in completions]\nr = _M",
    "condition": "if True:\n    def r(completions, **kwargs):\n        return [0.5 for _ in completions]",
}


@pytest.mark.parametrize("source", OBJECTS.values(), ids=OBJECTS)
def test_trl_trains_with_whatever_can_be_called(library: Library, source: str) -> None:
    rows = [{**row, "prompt": [{"role": "user", "content": row["prompt"]}]} for row in ROWS]
    answer = library.call("train", arguments={}, rewards=source, rows=rows)
    assert answer.raised == "", answer.text


def test_a_class_in_the_place_of_its_object_raises(library: Library) -> None:
    source = "class Judge:\n    def __init__(self, **_): ...\n    def __call__(self, **_): return [0.5]"
    answer = library.call("train", arguments={}, rewards=source, rows=ROWS)
    assert (answer.stage, answer.raised) == ("train", "TypeError")
