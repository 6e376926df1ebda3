"""Which releases of TRL can express a recipe."""

from pathlib import Path

import pytest
from small_recipe import STACK, declared, resolved

from grpo_recipes.compare import expressible as module
from grpo_recipes.compare.expressible import expressible
from grpo_recipes.yaml.compose import compose

RECIPES = Path(__file__).parents[2] / "recipes"

GRPO = "generation: {top_k: 50}\ngrpo: {loss_type: grpo}\n"


RECIPE = "grpo: {optimizer_steps_per_generation: 2}\ndataset: {path: ./none.jsonl}"
REFUSING = [
    "0.14.0-0.15.2 generation.top_k FCT004 grpo.loss_type FCT004 grpo.optimizer_steps_per_generation BAT005",
    "0.16.0-0.17.0 grpo.loss_type FCT004 grpo.optimizer_steps_per_generation BAT005",
    "0.18.0-0.21.0 grpo.loss_type FCT004",
    "0.22.0-1.9.0 grpo.optimizer_steps_per_generation LOS002",
    "1.15.0  STK013",
]


def test_a_missing_file_is_not_about_releases_and_everything_else_is(tmp_path: Path) -> None:
    resolution = resolved(tmp_path, RECIPE, STACK)
    assert resolution.refused and resolution.context is not None
    said = expressible(resolution.context.source, resolution.context.stack)
    assert said.releases.startswith("1.9.1-1.14.2, 1.16.0")
    told = [" ".join([one.releases, *(f"{r.key} {r.rule}" for r in one.reasons)]) for one in said.refusing]
    assert told == REFUSING


@pytest.mark.stack
@pytest.mark.parametrize("recipe", sorted(RECIPES.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_shipped_recipe_says_which_releases_can_express_it(recipe: Path) -> None:
    small = ("calculator", "colours", "guess", "quickstart", "quickstart_qlora")
    machine = "0" if recipe.stem in small else "8xH100-80GB"
    vllm = STACK.replace("vllm==absent", "vllm==0.30.0").replace("gpus=0", f"gpus={machine}")
    source, _ = compose(str(recipe))
    assert source is not None
    said = expressible(source, declared(vllm))
    assert f"# Can be expressed by: trl {said.releases}\n" in recipe.read_text(encoding="utf-8")


@pytest.mark.parametrize("recipe", [RECIPE, GRPO, "lora: null\ntrl: {num_iterations: 2}"], ids=["two", "grpo", "all"])
def test_releases_that_are_looked_at_once_say_what_each_says(
    recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = resolved(tmp_path, recipe, STACK).context
    assert context is not None
    looked_at: list[str] = []
    resolve_source = module.resolve_source
    monkeypatch.setattr(
        module, "resolve_source", lambda source, stack: looked_at.append(stack.origin) or resolve_source(source, stack)
    )
    once = expressible(context.source, context.stack)
    few = len(looked_at)
    monkeypatch.setattr(module, "_is_alike", lambda one, other: False)
    assert expressible(context.source, context.stack) == once
    assert 2 * few < len(looked_at), "most of the time is spent on releases that say the same"
