"""What `grpo-run init --data` writes passes preflight, and its right answers are paid."""

from collections.abc import Callable
from pathlib import Path

import pytest
from preflight_runs import Answer
from support import data_formats

from grpo_recipes.takeover.own_data.recipe import draft

pytestmark = [pytest.mark.processes, pytest.mark.stack, pytest.mark.slow]
RECIPES = Path(__file__).parents[2] / "recipes"
Preflight = Callable[..., Answer]


def _write(write: Callable[[Path], Path], folder: Path) -> Path:
    recipe = folder / f"{write.__name__}.yaml"
    model = RECIPES / ("colours" if write.__name__ == "images" else "quickstart") / "model"
    proposed = draft(str(write(folder)), str(recipe), model=str(model), question=None, answer=None)
    recipe.write_text(proposed.text)
    for name, text in proposed.files.items():
        (folder / name).write_text(text)
    return recipe


ALIKE = (data_formats.alpaca, data_formats.questions, data_formats.choice, data_formats.system, data_formats.lists)
"""Rewarded as one of the others is; tests/takeover/test_own_data.py reads their prompts and right answers."""


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(each, id=each.__name__, marks=[pytest.mark.long] * (each in ALIKE))
        for each in data_formats.FORMATS
        if each is not data_formats.share_gpt
    ],
)
def test_a_proposed_recipe_passes_preflight(write: Callable, preflight: Preflight, tmp_path: Path) -> None:
    answer = preflight(str(_write(write, tmp_path)), "--json")
    assert answer.code == 0, answer.out + answer.err
    # The small models have few positions, which PFL006 names.
    assert [each["message"] for each in answer.findings if each["rule"] != "PFL006"] == []


def test_a_reward_to_be_filled_in_is_named(preflight: Preflight, tmp_path: Path) -> None:
    answer = preflight(str(_write(data_formats.share_gpt, tmp_path)), "--json")
    assert (answer.code, "write the reward in rewards.py" in answer.out) == (2, True)
