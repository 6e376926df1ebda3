"""What is taken without Pydantic is what the models take, and the same; the table for that is made of the models."""

import copy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from make_format import form_of, format_text, refuse_what_cannot_be_said
from pydantic import AfterValidator, Field, field_validator, model_validator

from grpo_recipes.schemas.fast_accept import TABLE, SectionValues, accept, recipe_keys, section_keys
from grpo_recipes.schemas.models import sections, validate_recipe
from grpo_recipes.schemas.recipe import Recipe
from grpo_recipes.schemas.section import Section, fields_by_key
from grpo_recipes.yaml.compose import compose

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes").glob("*.yaml")) + sorted((ROOT / "recipes/catalogue").glob("*.yaml"))
SMALL: dict[str, Any] = {
    "recipe": 1,
    "name": "small",
    "model": {"model_name_or_path": "owner/model"},
    "dataset": {"path": "owner/data"},
    "datasets": [{"source": "math"}],
    "rewards": [{"judge": {"base_url": "http://127.0.0.1:8000/v1", "model": "small", "prompt": "{{ completion }}"}}],
    "tools": [{"python": "tools.py:add"}],
    "environment": {"python": "game.py:Game"},
    "environments": [{"name": "long", "python": "game.py:Game"}],
    "rollout": {"python": "mine.py:play"},
    "preflight": {"turns": [{"tool": "add"}]},
    "training": {"cut": {"processes": 2, "per_device_train_batch_size": 4}},
    "evaluation": {"passes": {"reward": "exact_match"}},
    "lora": {},
    "quantization": {},
    "slurm": {"container": {"image": "/run.sqsh", "runtime": "pyxis"}},
    "warm_start": {"steps": 1, "answer": "{{ answer }}", "learning_rate": 0.1},
}
WORDS: list[object] = [
    "",
    "x",
    "auto",
    "none",
    "1",
    "yes",
    "a\n",
    "\u00fc",
    "\ud800",
    "a.py:f",
    "a.py:f\n",
    "12:30",
    "x" * 300,
]
NUMBERS: list[object] = [0, 1, 2, 64, 65, 65535, 65536, -1, 2**53 + 1, 2**64, 10**400, True, False]
REALS: list[object] = [0.0, -0.0, 0.5, 1.0, 2.0, -0.5, 1e308, float("inf"), float("nan")]
MANY: list[object] = [
    None,
    [],
    ["x"],
    [1],
    [1.0],
    [True],
    [None],
    [""],
    {},
    {"x": 1},
    {"x": "y"},
    {"x": True},
    {1: "x"},
]
VALUES = [*WORDS, *NUMBERS, *REALS, *MANY]


def _typed(value: object) -> object:
    """The value with its types, so that 1, 1.0 and true differ."""
    if isinstance(value, dict):
        return type(value).__name__, [(_typed(key), _typed(item)) for key, item in value.items()]
    return [_typed(item) for item in value] if isinstance(value, list) else (type(value).__name__, repr(value))


def _holder(values: dict[str, Any], section: str) -> dict[str, Any]:
    for part in section.split(".") if section else ():
        values = values.setdefault(part, {})
        values = values[0] if isinstance(values, list) else values
    return values


def _altered(section: str, key: str) -> Iterator[dict[str, Any]]:
    for value in VALUES:
        recipe = copy.deepcopy(SMALL)
        _holder(recipe, section)[key] = copy.deepcopy(value)
        yield recipe
    recipe = copy.deepcopy(SMALL)
    _holder(recipe, section).pop(key, None)
    yield recipe


@pytest.mark.parametrize("section", sections())
def test_whatever_is_taken_is_what_the_models_take(section: str) -> None:
    taken = 0
    for key in (*section_keys()[section], "unknown"):
        for recipe in _altered(section, key):
            before = copy.deepcopy(recipe)
            plain = accept(recipe)
            assert _typed(recipe) == _typed(before)
            if plain is not None:
                taken += 1
                assert _typed(plain) == _typed(validate_recipe(recipe)), recipe
    assert taken >= len(section_keys()[section])


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_shipped_recipe_is_taken_without_pydantic(recipe: Path) -> None:
    source, findings = compose(str(recipe))
    assert source is not None and not findings
    assert isinstance(accept(source.values), SectionValues)


def test_the_table_is_made_of_the_models() -> None:
    assert TABLE.read_text(encoding="utf-8") == format_text(), "make schemas"


def test_the_keys_of_the_table_are_those_of_the_models_in_their_order() -> None:
    assert section_keys() == {name: tuple(fields_by_key(model)) for name, model in sections().items()}
    assert recipe_keys()[: len(Recipe.model_fields)] == tuple(Recipe.model_fields)


class LookedAtSection(Section):
    """A value that a function judges."""

    half: int = 0

    @field_validator("half")
    @classmethod
    def _is_even(cls, value: int) -> int:
        return value


class JudgedSection(Section):
    """Values that a function judges together."""

    half: int = 0

    @model_validator(mode="after")
    def _are_even(self) -> "JudgedSection":
        return self


def _even(value: int) -> int:
    return value


class AnnotatedSection(Section):
    """A value that a function of its type judges."""

    half: Annotated[int, AfterValidator(_even)] = 0


class OtherDefaultSection(Section):
    """A section whose default is not that of its keys."""

    inner: Annotated[LookedAtSection, Field()] = LookedAtSection.model_construct(half=2)


@pytest.mark.parametrize("model", [LookedAtSection, JudgedSection, AnnotatedSection, OtherDefaultSection])
def test_a_model_that_the_table_cannot_say_is_refused(model: type[Section]) -> None:
    with pytest.raises(ValueError, match=r"format\.json|default of a section"):
        refuse_what_cannot_be_said(model)


def test_a_word_that_nobody_asks_for_is_refused() -> None:
    assert form_of({"type": "integer", "minimum": 2, "title": "Half"}) == {"type": "integer", "minimum": 2}
    with pytest.raises(ValueError, match="multipleOf"):
        form_of({"type": "integer", "multipleOf": 2})


@pytest.mark.processes
@pytest.mark.parametrize("words", [("validate", str(ROOT / "recipes/qwen2_lora.yaml")), ("explain", "BAT001")])
def test_a_correct_recipe_and_the_page_of_a_rule_need_no_pydantic(words: tuple[str, ...]) -> None:
    asked = """
import sys
from grpo_recipes.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
print({"pydantic", "pydantic_core"} & set(sys.modules) or "none")
"""
    command = [sys.executable, "-c", asked, *words]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, check=True)
    assert said.stdout.splitlines()[-1] == "none"
