"""500 random recipes on every release: by what is known of all, and with the real GRPOConfig of each stack.

Fewer where only some of the stacks are asked for, and --stacks quick leaves out releases that mend another one.
"""

import pytest
from carried_values import judged
from environments import STACKS
from laboratory import Laboratory
from random_recipes import NEWEST, Values, valid_recipes
from rendered import declared

from grpo_recipes.compare.expressible import with_trl
from grpo_recipes.facts.released.shipped import releases_with_facts
from grpo_recipes.resolve.resolve import plan_of, resolve_source
from grpo_recipes.yaml.compose import Source

pytestmark = pytest.mark.stacks


@pytest.fixture(scope="session")
def recipes(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> list[tuple[Source, Values]]:
    """The recipes, made once."""
    number = 500 if request.config.getoption("--stacks") == "all" else 60
    return list(valid_recipes(tmp_path_factory.mktemp("random"), number, seed=2))


@pytest.mark.parametrize(
    "release",
    [
        pytest.param(release, marks=() if release.endswith(".0") else pytest.mark.long)
        for release in releases_with_facts("trl")
    ],
)
def test_a_random_recipe_is_passed_in_full_or_refused(release: str, recipes: list[tuple[Source, Values]]) -> None:
    target = with_trl(NEWEST, release)
    taken = [judged(values, resolve_source(source, target)) for source, values in recipes]
    assert sum(taken) > len(recipes) // 100


@pytest.mark.parametrize("stack", STACKS)
def test_the_stack_takes_what_is_passed_without_a_word(
    stack: str, laboratory: Laboratory, recipes: list[tuple[Source, Values]]
) -> None:
    resolutions = [resolve_source(source, declared(stack)) for source, _ in recipes]
    plans = [plan_of(one) for one in resolutions if not one.refused]
    assert plans
    passed = [[plan.world.num_processes, plan.arguments.GRPOConfig] for plan in plans]
    outcome = laboratory.run(stack, "random_recipe_experiments.built", plans=passed)
    assert outcome.result is not None, outcome.told
    strange = [(one, plan) for one, (_, plan) in zip(outcome.result, passed, strict=True) if any(one.values())]
    assert strange == []
