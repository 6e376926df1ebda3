"""The rewards of a release, and the keywords that it passes to rewards, are what its source says (RWD001, RWD002)."""

import re
from pathlib import Path

import pytest
from environments import ENVIRONMENTS, STACKS

from grpo_recipes.facts.reward_keywords import not_passed, rewards_of_trl
from grpo_recipes.facts.source.package_facts import package_folder

pytestmark = pytest.mark.stacks


def _folder(stack: str) -> Path:
    if not ENVIRONMENTS[stack].is_built():
        pytest.skip("this stack is not built")
    folders = [folder / "trl" for folder in ENVIRONMENTS[stack].folders()] + [package_folder("trl")]
    return next(folder for folder in folders if folder is not None and folder.exists())


@pytest.mark.parametrize("stack", STACKS)
def test_a_reward_is_exported_from_its_release_on(stack: str) -> None:
    file = _folder(stack) / "rewards" / "__init__.py"
    source = file.read_text(encoding="utf-8") if file.exists() else ""
    known = rewards_of_trl("99")
    assert {name for name in known if f'"{name}"' in source} == set(rewards_of_trl(stack.partition("/")[0]))
    assert set(re.findall(r'"((?:get_)?\w+_(?:reward|punishment))"', source)) <= set(known)


@pytest.mark.parametrize("stack", STACKS)
def test_a_keyword_is_in_the_source_from_its_release_on(stack: str) -> None:
    source = (_folder(stack) / "trainer" / "grpo_trainer.py").read_text(encoding="utf-8")
    keywords = not_passed("0.14.0")
    passed = {name for name in keywords if re.search(rf'{name}=|reward_kwargs\["{name}"\]', source)}
    assert set(keywords) - passed == set(not_passed(stack.partition("/")[0]))
