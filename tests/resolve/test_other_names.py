"""Names from other programs: each row of the table is written at a usual place, mended, and then in its home."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from small_recipe import BASE, STACK, declared

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.resolve.fixes.fixes import is_safe
from grpo_recipes.resolve.resolve import Resolution, resolve
from grpo_recipes.schemas.fast_accept import recipe_keys
from grpo_recipes.schemas.other_names import other_names, value_here
from grpo_recipes.yaml.compose import with_patches

KEYS = other_names()["keys"]
VALUES = {
    "generation.weight_sync": True,
    "model.model_name_or_path": "a/b",
    "model.model_revision": "main",
    "model.dtype": "bfloat16",
    "model.attn_implementation": "sdpa",
    "generation.use_vllm": False,
    "dataset.prompt": "{{ question }}",
    "dataset.path": "a/c",
    "dataset.name": "main",
    "evaluation.name": "main",
    "dataset.split": "train",
    "dataset.images": "picture",
    "dataset.system_prompt": "Think.",
    "rewards": [{"name": "exact_match"}],
    "training.gradient_checkpointing": True,
    "lora.lora_dropout": 0.1,
    "lora.target_modules": "all-linear",
    "lora.modules_to_save": ["lm_head"],
    "lora.use_rslora": True,
    "lora.use_dora": True,
    "training.lr_scheduler_type": "cosine",
    "training.optim": "adamw_torch",
    "training.learning_rate": 1e-5,
    "evaluation.at_start": False,
    "grpo.scale_rewards": True,
    "grpo.loss_type": "token-mean",
    "grpo.mask_truncated_completions": True,
    "generation.stop": ["</answer>"],
    "logging.run_name": "first",
    "launch.environment.WANDB_PROJECT": "project",
    "launch.environment.WANDB_RUN_GROUP": "group",
    **dict.fromkeys(("grpo.epsilon", "grpo.epsilon_high", "grpo.beta", "trl.entropy_coef"), 0.1),
    "generation.vllm_gpu_memory_utilization": 0.4,
}


def _with(name: str, value: object) -> dict[str, object]:
    recipe: dict[str, Any] = yaml.safe_load(BASE)
    place, _, key = name.rpartition(".")
    home = KEYS[name].get("home", "")
    section, _, own = home.rpartition(".")
    if "." not in section and own in recipe.get(section, {}):
        del recipe[section][own]
    if home == "rewards":
        del recipe["rewards"]
    if home.startswith("evaluation."):
        recipe["evaluation"] = {"split": "test"}
    if home.startswith("lora.") and not home.endswith(".r"):
        recipe["lora"] = {"r": 4} if own == "lora_alpha" else {"r": 4, "lora_alpha": 8}
    into = recipe.setdefault(place, {}) if place else recipe
    into[key] = value
    return recipe


def _is_certain(finding: Finding, resolution: Resolution) -> bool:
    assert resolution.context is not None
    return is_safe(finding, resolution, resolution.context.source.values)


def _resolved(folder: Path, recipe: dict[str, object]) -> Resolution:
    (folder / "mine.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False), encoding="utf-8")
    return resolve(str(folder / "mine.yaml"), declared(STACK))


@pytest.mark.parametrize("name", [name for name, row in KEYS.items() if "home" in row])
def test_a_name_with_a_home_is_mended_to_it(name: str, tmp_path: Path) -> None:
    row = KEYS[name]
    value = VALUES.get(row["home"], 4)
    recipe = _with(name, value)
    before = _resolved(tmp_path, recipe)
    (finding,) = [one for one in before.findings if one.key == name]
    assert row["home"] in (finding.fix or "")
    is_same = not {"differs", "tracker"} & set(row) and value_here(row, value) == value
    assert _is_certain(finding, before) == is_same, "certain where meaning and value are the same, and there alone"
    if "differs" in row:
        assert row["differs"] in finding.because
    mended = with_patches(recipe, finding.patch)
    node: object = mended
    for part in row["home"].split("."):
        node = node[part]  # type: ignore[index]
    assert node == value_here(row, value)
    after = _resolved(tmp_path, mended)
    assert not [one for one in after.findings if one.rule.startswith(("SCH", "FCT")) and one.severity == "error"]


@pytest.mark.parametrize("name", [name for name, row in KEYS.items() if "home" not in row])
@pytest.mark.parametrize("section", ["", "grpo", "training", "generation"])
def test_a_name_without_a_home_is_answered_everywhere(name: str, section: str, tmp_path: Path) -> None:
    recipe = yaml.safe_load(BASE)
    (recipe.setdefault(section, {}) if section else recipe)[name] = True
    (finding,) = [one for one in _resolved(tmp_path, recipe).findings if one.key.endswith(name)]
    assert finding.because == (KEYS[name]["because"],)
    assert finding.fix == KEYS[name]["instead"].replace("remove it", f"remove {name}", 1)


def test_the_table_hides_no_key_of_the_format_and_has_homes_that_exist() -> None:
    plain = {name for name in KEYS if "." not in name}
    ours = {key.rpartition(".")[2] for key in recipe_keys() if not key.startswith("rewards.judge")} - {"name"}
    assert not plain & ours
    open_sections = ("lora.", "trl.", "launch.environment.", "generation.chat_template_kwargs.")
    homes = {row["home"] for row in KEYS.values() if "home" in row}
    assert not [home for home in homes if home not in recipe_keys() and not home.startswith(open_sections)]
    fields = {name for name, field in classified_fields().items() if not field.owner}
    assert not plain & fields


ALGORITHMS = [
    ("gspo", {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 0.0003, "epsilon_high": 0.0004}),
    ("GSPO-token", {"importance_sampling_level": "sequence"}),
    ("gdpo", {"multi_objective_aggregation": "normalize_then_sum"}),
    ("dapo", {"loss_type": "dapo", "epsilon_high": 0.28}),
    ("Dr. GRPO", {"loss_type": "dr_grpo", "scale_rewards": "none"}),
    ("cispo", {"loss_type": "cispo", "epsilon_high": 5.0}),
    ("sapo", {"loss_type": "sapo"}),
    ("vespo", {"loss_type": "vespo"}),
    ("luspo", {"loss_type": "luspo", "importance_sampling_level": "sequence"}),
]


@pytest.mark.parametrize(("word", "settings"), ALGORITHMS)
@pytest.mark.parametrize("key", ["algorithm", "grpo.loss_type", "trl.rl", "grpo.adv_estimator"])
def test_an_algorithm_becomes_the_settings_that_define_it(
    key: str, word: str, settings: dict[str, object], tmp_path: Path
) -> None:
    recipe = yaml.safe_load(BASE)
    section, _, name = key.rpartition(".")
    (recipe.setdefault(section, {}) if section else recipe)[name] = word
    before = _resolved(tmp_path, recipe)
    found = [one for one in before.findings if one.key == key and one.severity == "error"]
    if name == "loss_type" and settings.get("loss_type") == word:
        assert not found
        return
    (finding,) = found
    assert not _is_certain(finding, before)
    mended = with_patches(recipe, finding.patch)
    assert settings.items() <= mended["grpo"].items()
    assert not [one for one in _resolved(tmp_path, mended).findings if one.severity == "error"]


@pytest.mark.parametrize("word", ["gmpo", "dppo", "rloo", "reinforce++", "reinforce", "ppo", "gtpo", "geo_mean", "gpg"])
@pytest.mark.parametrize("key", ["algorithm", "grpo.loss_type"])
def test_an_algorithm_that_is_not_implemented_has_a_nearest_and_no_patch(key: str, word: str, tmp_path: Path) -> None:
    recipe = yaml.safe_load(BASE)
    section, _, name = key.rpartition(".")
    (recipe.setdefault(section, {}) if section else recipe)[name] = word
    (finding,) = [one for one in _resolved(tmp_path, recipe).findings if one.severity == "error"]
    assert finding.patch == ()
    assert finding.fix is not None and finding.fix.startswith("the nearest is ")


def test_what_a_recipe_says_itself_stays_beside_an_algorithm(tmp_path: Path) -> None:
    recipe = {**yaml.safe_load(BASE), "grpo": {"loss_type": "gspo", "epsilon": 0.1}}
    (finding,) = [one for one in _resolved(tmp_path, recipe).findings if one.severity == "error"]
    assert "the recipe has epsilon 0.1, which stays" in finding.because
    assert with_patches(recipe, finding.patch)["grpo"]["epsilon"] == 0.1


def test_a_project_beside_its_tracker_is_certain(tmp_path: Path) -> None:
    recipe = {**yaml.safe_load(BASE), "wandb_project": "maths", "logging": {"report_to": ["wandb"]}}
    before = _resolved(tmp_path, recipe)
    (finding,) = [one for one in before.findings if one.key == "wandb_project"]
    assert _is_certain(finding, before)


def test_modules_by_commas_become_a_list(tmp_path: Path) -> None:
    recipe = {**yaml.safe_load(BASE), "lora": {"r": 4, "lora_target": "q_proj,v_proj"}}
    (finding,) = [one for one in _resolved(tmp_path, recipe).findings if one.key == "lora.lora_target"]
    assert with_patches(recipe, finding.patch)["lora"]["target_modules"] == ["q_proj", "v_proj"]


@pytest.mark.parametrize(
    ("key", "value", "home"),
    [
        ("n", 8, "grpo.num_generations"),
        ("temperature", 0.7, "generation.temperature"),
        ("response_length", 64, "generation.max_completion_length"),
        ("gpu_memory_utilization", 0.4, "generation.vllm_gpu_memory_utilization"),
    ],
)
def test_the_rollout_of_verl_is_told_where_its_keys_are(key: str, value: object, home: str, tmp_path: Path) -> None:
    recipe: dict[str, Any] = yaml.safe_load(BASE)
    section, _, own = home.partition(".")
    recipe.get(section, {}).pop(own, None)
    recipe["rollout"] = {key: value}
    refused = [one for one in _resolved(tmp_path, recipe).findings if one.key.startswith("rollout")]
    assert [(one.rule, one.fix) for one in refused] == [("FCT001", f"write it as {home}")]
    mended = with_patches(recipe, refused[0].patch)
    assert mended[section][own] == value
    del mended["rollout"]  # nothing is in it by now
    assert not [one for one in _resolved(tmp_path, mended).findings if one.key.startswith("rollout")]


OWN = "python: file.py:function, or remove rollout"


@pytest.mark.parametrize(
    ("rollout", "said"),
    [
        ({"python": "mine.py:play", "n": 8}, ["remove n, or write grpo.num_generations for training"]),
        ({"zzz": 1}, [OWN, "remove zzz, if you do not need it"]),
        ({}, [OWN]),
        ({"path": "mine.py"}, [OWN, "remove path, or write dataset.path for training"]),
    ],
)
def test_a_rollout_of_ones_own_keeps_its_answers(rollout: object, said: list[str], tmp_path: Path) -> None:
    found = _resolved(tmp_path, {**yaml.safe_load(BASE), "rollout": rollout}).findings
    assert [one.fix for one in found if one.key.startswith("rollout")] == said
