"""FCT003 for generation_kwargs elsewhere: the map moves to its key, where GEN010 judges each of its keys."""

from pathlib import Path

import pytest
import yaml
from small_recipe import STACK, errors, resolved

from grpo_recipes.yaml.compose import with_patches


@pytest.mark.parametrize("section", ["trl", "generation", "training"])
def test_the_map_has_one_place(section: str, tmp_path: Path) -> None:
    recipe = f"{section}: {{generation_kwargs: {{typical_p: 0.9, stop_strings: </a>}}}}"
    mended = yaml.safe_load(recipe)
    if section != "generation":
        found = errors(resolved(tmp_path, recipe, STACK))
        assert [finding.key for finding in found] == [f"{section}.generation_kwargs"]
        assert found[0].fix == "write it as generation.generation_kwargs"
        mended = with_patches(mended, found[0].patch)
    judged = errors(resolved(tmp_path, yaml.safe_dump(mended), STACK))
    assert [(finding.rule, finding.message) for finding in judged] == [
        ("GEN010", "stop_strings is set by generation.stop")
    ]
    mended = with_patches(mended, judged[0].patch)
    assert mended["generation"] == {"generation_kwargs": {"typical_p": 0.9}, "stop": ["</a>"]}
    assert errors(resolved(tmp_path, yaml.safe_dump(mended), STACK)) == []


def test_a_map_that_has_its_place_already_stays(tmp_path: Path) -> None:
    recipe = "generation: {generation_kwargs: {typical_p: 0.7}}\ntrl: {generation_kwargs: {typical_p: 0.5}}"
    found = errors(resolved(tmp_path, recipe, STACK))
    assert with_patches(yaml.safe_load(recipe), found[0].patch)["generation"] == {
        "generation_kwargs": {"typical_p": 0.7}
    }
