"""The batch of a recipe is kept in every world, or the recipe is refused."""

import json
import random
from pathlib import Path

import pytest
from rule_cases import BASE_RECIPE, declared, laid_over, resolved
from support.work import takes_at_most

from grpo_recipes.facts.facts import Facts
from grpo_recipes.resolve.engine import check, decide
from grpo_recipes.resolve.inexpressible import pin
from grpo_recipes.resolve.recipe_phase import check_recipe, recipe_settings
from grpo_recipes.resolve.rename import rename
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.settings import Settings
from grpo_recipes.rules.catalog import rules
from grpo_recipes.stack.stack import Stack
from grpo_recipes.yaml.compose import compose

NO_FACTS = Facts({}, {}, {})


def _renamed(values: dict[str, object], stack: Stack, folder: Path) -> Context:
    """The settings of a recipe before any rule has decided."""
    path = folder / "case.yaml"
    path.write_text(json.dumps(values), encoding="utf-8")
    source, findings = compose(str(path))
    assert source is not None, findings
    checked = check_recipe(source, NO_FACTS)
    assert checked.recipe is not None, checked.findings
    settings, _ = rename(recipe_settings(checked.recipe, source, checked.refused), NO_FACTS, source)
    return Context(settings, stack, NO_FACTS, source)


def _random_recipe(random_numbers: random.Random) -> dict[str, object]:
    size = random_numbers.choice(["auto", "auto", random_numbers.randint(1, 32)])
    return laid_over(
        BASE_RECIPE,
        {
            "grpo": {
                "num_generations": random_numbers.randint(2, 16),
                "optimizer_steps_per_generation": random_numbers.randint(1, 4),
            },
            "generation": {"max_completion_length": random_numbers.choice([1, 100, 512, 5000, 60000])},
            "training": {
                "prompts_per_step": random_numbers.randint(1, 128),
                "per_device_train_batch_size": size,
            },
            "launch": {"num_processes": random_numbers.randint(1, 64)},
        },
    )


def _whole(settings: Settings, name: str) -> int:
    value = settings[name].value
    assert isinstance(value, int)
    return value


def test_a_batch_is_kept_exactly_or_refused(tmp_path: Path) -> None:
    random_numbers, kept, refused, stack = random.Random(1), 0, 0, declared()
    for _ in range(100):
        before = _renamed(_random_recipe(random_numbers), stack, tmp_path)
        context = Context(decide(before), stack, NO_FACTS, before.source)
        found = [finding for finding in check(context) if finding.severity == "error"]
        assert {finding.rule for finding in found} <= {"BAT001"}
        completions = _whole(context.settings, "training.prompts_per_step") * _whole(
            context.settings, "GRPOConfig.num_generations"
        )
        processes = _whole(context.settings, "world.num_processes")
        size = context.settings["GRPOConfig.per_device_train_batch_size"].value
        fits = completions % processes == 0 and (size == "auto" or completions // processes % int(str(size)) == 0)
        assert fits == (not found)
        if found:
            refused += 1
            continue
        kept += 1
        step = _whole(context.settings, "GRPOConfig.per_device_train_batch_size") * processes
        assert step * _whole(context.settings, "GRPOConfig.gradient_accumulation_steps") == completions
        generated = step * _whole(context.settings, "GRPOConfig.steps_per_generation")
        assert generated % _whole(context.settings, "GRPOConfig.num_generations") == 0
        assert generated == completions * _whole(context.settings, "grpo.optimizer_steps_per_generation")
    assert min(kept, refused) > 10


def test_an_automatic_micro_batch_is_the_largest_that_fits(tmp_path: Path) -> None:
    random_numbers, stack = random.Random(2), declared()
    for _ in range(40):
        recipe = laid_over(_random_recipe(random_numbers), {"training": {"per_device_train_batch_size": "auto"}})
        context = _renamed(recipe, stack, tmp_path)
        settings = decide(context)
        size = settings["GRPOConfig.per_device_train_batch_size"].value
        if size == "auto":
            continue
        per_process = _whole(settings, "GRPOConfig.gradient_accumulation_steps") * int(str(size))
        tokens = 1024 if settings["world.device"].value == "cpu" else 16384
        limit = max(1, tokens // _whole(settings, "GRPOConfig.max_completion_length"))
        assert size == max(n for n in range(1, min(limit, per_process) + 1) if per_process % n == 0)


WRITTEN = {
    "training": {
        "prompts_per_step": None,
        "per_device_train_batch_size": 2,
        "gradient_checkpointing_kwargs": {"use_reentrant": True},
    },
    "trl": {"gradient_accumulation_steps": 4, "steps_per_generation": 4},
    "generation": {"use_vllm": False, "vllm_mode": "server"},
    "distributed": {"strategy": "zero2"},
    "launch": {"num_processes": 2, "gpus_per_node": 0},
    "lora": {"r": 4},
    "quantization": {"load_in_4bit": True},
}


@pytest.mark.parametrize("rest", [{}, {"training": {"prompts_per_step": 4}}], ids=["trl-fields", "both"])
def test_a_written_value_is_never_overwritten(rest: dict[str, object], tmp_path: Path) -> None:
    before = _renamed(laid_over(laid_over(BASE_RECIPE, WRITTEN), rest), declared(), tmp_path)
    given = {key: setting for key, setting in before.settings.items() if setting.given and setting.value != "auto"}
    after = decide(before)
    assert {key: after[key] for key in given} == given
    assert len(given) > 12


def test_a_decided_value_says_who_decided_and_why(tmp_path: Path) -> None:
    owners = {key: rule.id for rule in rules() for key in rule.owns}
    recipe = laid_over(BASE_RECIPE, {"lora": {"r": 4}, "quantization": {"load_in_4bit": True}})
    after = decide(_renamed(recipe, declared({"gpus": "2xA100-80GB"}), tmp_path))
    decided = [setting for setting in after.values() if setting.origin in set(owners.values())]
    assert len(decided) > 6
    assert [s.key for s in decided if owners.get(s.key) != s.origin or not s.why] == []


def test_every_setting_has_an_origin(tmp_path: Path) -> None:
    resolution = resolved(laid_over(BASE_RECIPE, WRITTEN), declared(), tmp_path)
    assert resolution.context is not None
    settings = resolution.context.settings
    ids = {rule.id for rule in rules()}
    strange = [
        key
        for key, setting in settings.items()
        if not (setting.origin in ids | {"format 1"} or setting.origin.startswith(str(tmp_path)))
    ]
    assert strange == []
    assert pin(settings).keys() == settings.keys()


@pytest.mark.parametrize("processes", [1, 7])
def test_a_batch_of_billions_is_judged_as_fast_as_a_small_one(processes: int, tmp_path: Path) -> None:
    huge = {"grpo": {"num_generations": 410_001_001_000}, "launch": {"num_processes": processes}}
    with takes_at_most(2):
        resolved(laid_over(BASE_RECIPE, huge), declared(), tmp_path)
