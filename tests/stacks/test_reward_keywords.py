"""Which keywords a release passes to rewards is what its source says (RWD002)."""

import re

import pytest
from environments import ENVIRONMENTS, STACKS

from grpo_recipes.facts.accepted_keys import not_passed
from grpo_recipes.facts.source.package_facts import package_folder

pytestmark = pytest.mark.stacks


@pytest.mark.parametrize("stack", STACKS)
def test_a_keyword_is_in_the_source_from_its_release_on(stack: str) -> None:
    if not ENVIRONMENTS[stack].is_built():
        pytest.skip("this stack is not built")
    folders = [folder / "trl" for folder in ENVIRONMENTS[stack].folders()] + [package_folder("trl")]
    folder = next(folder for folder in folders if folder is not None and folder.exists())
    source = (folder / "trainer" / "grpo_trainer.py").read_text(encoding="utf-8")
    keywords = not_passed("0.14.0")
    passed = {name for name in keywords if re.search(rf'{name}=|reward_kwargs\["{name}"\]', source)}
    assert set(keywords) - passed == set(not_passed(stack.partition("/")[0]))
