"""Flat TRL configurations: every key has a row, and the recipe means what the release did."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.releases import pinned
from taken import BASE, as_yaml, recipe_of, row, taken

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.facts.facts import facts_for
from grpo_recipes.facts.source.field import NoDefault
from grpo_recipes.resolve.resolve import resolve
from grpo_recipes.stack.target import parse_target
from grpo_recipes.takeover import old_defaults
from grpo_recipes.takeover.basis.release import parse_release

# Those around which names and defaults moved.
RELEASES = ("0.14.0", "0.15.2", "0.16.1", "0.17.0", "0.19.1", "0.22.0", "0.22.2", "0.26.2", "0.28.0", "1.0.0", "1.16.0")


def _defaults(release: str) -> dict[str, Any]:
    """Every GRPOConfig field of a release that has a default in JSON, with it."""
    fields = parse_release(f"trl=={release}").fields
    return {name: field.default for name, field in fields.items() if not isinstance(field.default, NoDefault)}


@pytest.mark.parametrize("release", RELEASES)
def test_every_field_of_a_release_has_a_row(release: str, tmp_path: Path) -> None:
    values = _defaults(release)
    one = taken(tmp_path, as_yaml(**values), f"trl=={release}")
    keys = {line.key.partition(" (")[0].partition(".")[0] for line in one.rows}
    assert set(values) - keys == set()
    recipe_of(one)


@pytest.mark.parametrize("release", RELEASES)
def test_defaults_that_are_written_say_what_silence_says(release: str, tmp_path: Path) -> None:
    silent = recipe_of(taken(tmp_path, BASE, f"trl=={release}"))
    values = {
        name: value
        for name, value in _defaults(release).items()
        if name in ("beta", "temperature", "max_completion_length", "loss_type", "scale_rewards", "top_k", "epsilon")
    }
    said = recipe_of(taken(tmp_path, as_yaml(**values), f"trl=={release}"))
    for section, key, of_the_format in (
        ("grpo", "beta", 0.0),
        ("grpo", "loss_type", "dapo"),
        ("grpo", "scale_rewards", "group"),
        ("generation", "temperature", 1.0),
        ("generation", "max_completion_length", 512),
        ("generation", "top_k", 0),
    ):
        both = [recipe.get(section, {}).get(key, of_the_format) for recipe in (silent, said)]
        assert both[0] == both[1], key


def test_a_dumped_configuration_becomes_no_longer_than_its_own_values(tmp_path: Path) -> None:
    silent = recipe_of(taken(tmp_path, BASE))["trl"]
    assert recipe_of(taken(tmp_path, as_yaml(**_defaults("1.16.0"))))["trl"] == silent
    values = _defaults("1.16.0") | {"log_level": "info", "vespo_k_neg": 2.5, "pad_to_multiple_of": None}
    changed = {"log_level": "info", "vespo_k_neg": 2.5, "pad_to_multiple_of": None}
    assert recipe_of(taken(tmp_path, as_yaml(**values)))["trl"] == silent | changed


def test_a_default_of_the_release_that_the_format_lacks_stays(tmp_path: Path) -> None:
    one = taken(tmp_path, as_yaml(ref_model_mixup_alpha=0.9, ref_model_sync_steps=64), "trl==0.15.2")
    assert recipe_of(one)["trl"]["ref_model_mixup_alpha"] == 0.9


def test_a_minimal_configuration_of_the_newest_release_validates(tmp_path: Path) -> None:
    one = taken(tmp_path, BASE)
    (tmp_path / "recipe.yaml").write_text(one.text)
    stack, _ = parse_target(f"{pinned('trl transformers')},gpus=1xH100-80GB")
    assert stack is not None
    assert one.is_complete
    assert [f for f in resolve(str(tmp_path / "recipe.yaml"), stack).findings if f.severity == "error"] == []


def test_no_beta_in_a_file_for_0_15_means_0_04(tmp_path: Path) -> None:
    assert recipe_of(taken(tmp_path, BASE, "trl==0.15.2"))["grpo"]["beta"] == 0.04
    assert "beta" not in recipe_of(taken(tmp_path, BASE, "trl==0.19.1")).get("grpo", {})


def test_a_temperature_that_the_loss_ignored_is_told(tmp_path: Path) -> None:
    one = taken(tmp_path, BASE, "trl==0.15.2")
    (told,) = [line for line in one.rows if line.where == ("generation.temperature",)]
    assert (told.fate, told.value) == ("emulated", 0.9)
    assert "leaves it out of the loss" in told.because
    assert recipe_of(one)["generation"]["temperature"] == 0.9
    assert one.is_complete
    as_sampled = taken(tmp_path, as_yaml(temperature=1.0), "trl==0.15.2")
    assert [line.fate for line in as_sampled.rows if line.where == ("generation.temperature",)] == ["mapped"]


def test_words_of_a_release_that_mean_something_else_are_translated(tmp_path: Path) -> None:
    assert recipe_of(taken(tmp_path, as_yaml(scale_rewards=False), "trl==0.17.0"))["grpo"]["scale_rewards"] == "none"
    assert recipe_of(taken(tmp_path, as_yaml(scale_rewards="group"), "trl==0.22.0"))["grpo"]["scale_rewards"] == "none"
    assert recipe_of(taken(tmp_path, as_yaml(scale_rewards="group"), "trl==0.22.2"))["grpo"]["scale_rewards"] == "group"


def test_a_loss_of_the_micro_batch_is_refused_beyond_one(tmp_path: Path) -> None:
    assert taken(tmp_path, as_yaml(gradient_accumulation_steps=1), "trl==0.19.1").is_complete
    many = taken(tmp_path, as_yaml(gradient_accumulation_steps=4), "trl==0.19.1")
    assert [line.where for line in many.rows if line.fate == "refused"] == [("grpo.loss_type",)]


def test_a_server_without_an_address_is_the_runs_own(tmp_path: Path) -> None:
    one = taken(tmp_path, as_yaml(use_vllm=True, vllm_mode="server"))
    assert (row(one, "vllm_mode").fate, row(one, "vllm_mode").where) == ("emulated", ("generation.vllm_mode",))
    named = taken(tmp_path, as_yaml(use_vllm=True, vllm_mode="server", vllm_server_port=8001))
    assert row(named, "vllm_mode").fate == "mapped"
    assert recipe_of(named)["trl"]["vllm_server_port"] == 8001


def test_trl_0_14_counts_prompts(tmp_path: Path) -> None:
    text = as_yaml(per_device_train_batch_size=2, num_generations=4, gradient_accumulation_steps=3)
    assert recipe_of(taken(tmp_path, text, "trl==0.14.0"))["training"]["per_device_train_batch_size"] == 8
    assert recipe_of(taken(tmp_path, text, "trl==0.15.2"))["training"]["per_device_train_batch_size"] == 2


def test_known_processes_make_a_global_batch(tmp_path: Path) -> None:
    text = as_yaml(per_device_train_batch_size=16, num_generations=8, gradient_accumulation_steps=4, num_processes=2)
    recipe = recipe_of(taken(tmp_path, text))
    assert recipe["training"]["prompts_per_step"] == 16
    assert recipe["launch"] == {"gpus_per_node": 2}
    assert "trl" not in recipe


def test_unknown_processes_leave_trls_own_fields(tmp_path: Path) -> None:
    recipe = recipe_of(taken(tmp_path, as_yaml(gradient_accumulation_steps=4, steps_per_generation=8)))
    assert recipe["trl"] == {"gradient_accumulation_steps": 4, "steps_per_generation": 8}
    assert "prompts_per_step" not in recipe["training"]


def test_one_generation_for_two_steps_is_kept(tmp_path: Path) -> None:
    text = as_yaml(gradient_accumulation_steps=4, steps_per_generation=8, num_processes=1)
    assert recipe_of(taken(tmp_path, text))["grpo"]["optimizer_steps_per_generation"] == 2


@pytest.mark.parametrize(
    ("text", "section", "key", "value"),
    [
        pytest.param("learning_rate: 1e-5", "training", "learning_rate", 1e-5, id="1e-5 is a string to YAML 1.1"),
        pytest.param("bf16: 'no'", "training", "bf16", False, id="a string for a boolean"),
        pytest.param("beta: '0.1'", "grpo", "beta", 0.1, id="a quoted number"),
        pytest.param("max_completion_length: 64.0", "generation", "max_completion_length", 64, id="a whole float"),
        pytest.param("shuffle_dataset: off", "training", "shuffle_dataset", False, id="off"),
        pytest.param("max_grad_norm: 1_0", "training", "max_grad_norm", 10, id="an underscore"),
        pytest.param("lr_scheduler_kwargs: '{\"a\": 1}'", "training", "lr_scheduler_kwargs", {"a": 1}, id="JSON"),
    ],
)
def test_values_are_read_as_trl_reads_them(text: str, section: str, key: str, value: object, tmp_path: Path) -> None:
    one = taken(tmp_path, f"{BASE}{text}\n")
    assert one.is_complete
    found = recipe_of(one)[section][key]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("beta: null", "null is passed as None", id="null for a number"),
        pytest.param("optim: no", "YAML 1.1 reads yes, no, on and off as false", id="no for a word"),
        pytest.param("num_generations: eight", "not 'eight'", id="a word for a number"),
        pytest.param("num_generations: 2.5", "not 2.5", id="a fraction for a whole number"),
        pytest.param("reward_weights: '1.0'", "1 numbers", id="a string for a list"),
        pytest.param("num_generations: 1", "a group of one has no advantage", id="a value that no recipe has"),
        pytest.param("num_generations: 0", "greater than or equal to 2", id="a number of nothing"),
        pytest.param("hub_token: hf_abc", "no place for a token", id="a token"),
        pytest.param("learning_rat: 1e-5", "the nearest is learning_rate", id="a mistyped key"),
    ],
)
def test_what_trl_or_a_recipe_cannot_take_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    one = taken(tmp_path, f"{BASE}{text}\n")
    refused = [line for line in one.rows if line.fate == "refused"]
    assert len(refused) == 1
    assert refused[0].key == text.partition(":")[0]
    assert reason in refused[0].because
    assert f"#   {refused[0].key}: " in one.text


def test_a_key_that_is_written_twice_is_told(tmp_path: Path) -> None:
    one = taken(tmp_path, f"{BASE}beta: 0.1\nbeta: 0.2\n")
    assert recipe_of(one)["grpo"]["beta"] == 0.2
    assert [line.fate for line in one.rows if line.key == "beta"] == ["emulated", "mapped"]


def test_trl_grpo_before_0_26_loads_the_model_without_its_dtype(tmp_path: Path) -> None:
    text = as_yaml(torch_dtype="bfloat16", temperature=1.0)
    old = taken(tmp_path, text, "trl==0.19.1")
    assert "dtype" not in recipe_of(old)["model"]
    assert row(old, "torch_dtype").fate == "emulated"
    assert recipe_of(taken(tmp_path, text, "trl==0.26.2"))["model"]["dtype"] == "bfloat16"


def test_lora_and_quantization_keep_trls_own_defaults(tmp_path: Path) -> None:
    text = as_yaml(use_peft=True, lora_r=4, load_in_4bit=True, use_bnb_nested_quant=True, dtype="bfloat16")
    text += "lora_target_modules: [q_proj, v_proj]\n"
    recipe = recipe_of(taken(tmp_path, text))
    assert recipe["lora"] == {
        "r": 4,
        "lora_alpha": 32,
        "lora_dropout": 0.05,
        "target_modules": ["q_proj", "v_proj"],
    }
    assert recipe["quantization"] == {
        "load_in_4bit": True,
        "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_use_double_quant": True,
        "bnb_4bit_compute_dtype": "bfloat16",
    }


def test_modules_that_peft_would_choose_are_written_where_the_model_is_known(tmp_path: Path) -> None:
    known = as_yaml(use_peft=True).replace("owner/model", "Qwen/Qwen2-0.5B-Instruct")
    assert recipe_of(taken(tmp_path, known))["lora"]["target_modules"] == ["q_proj", "v_proj"]
    unknown = taken(tmp_path, as_yaml(use_peft=True))
    assert row(unknown, "lora_target_modules").fate == "refused"


def test_lora_keys_without_use_peft_change_nothing(tmp_path: Path) -> None:
    one = taken(tmp_path, as_yaml(lora_r=4))
    assert "lora" not in recipe_of(one)
    assert row(one, "lora_r").fate == "emulated"


def test_model_init_kwargs_win(tmp_path: Path) -> None:
    one = taken(tmp_path, as_yaml(dtype="float16", model_init_kwargs={"torch_dtype": "bfloat16", "device_map": "auto"}))
    assert recipe_of(one)["model"]["dtype"] == "bfloat16"
    assert row(one, "model_init_kwargs.device_map").fate == "refused"


def test_stops_in_generation_kwargs_have_their_keys(tmp_path: Path) -> None:
    one = taken(tmp_path, as_yaml(generation_kwargs={"stop_strings": "</a>", "top_p": 0.5, "typical_p": 0.2}))
    assert recipe_of(one)["generation"] == {"stop": ["</a>"], "top_p": 0.5}
    assert row(one, "generation_kwargs.typical_p").fate == "refused"


def test_the_evaluation_of_the_trainer_becomes_that_of_the_recipe(tmp_path: Path) -> None:
    one = taken(tmp_path, as_yaml(eval_strategy="steps", eval_steps=50, dataset_test_split="validation"))
    assert recipe_of(one)["evaluation"] == {
        "split": "validation",
        "at_start": False,
        "every_steps": 50,
        "greedy": False,
    }
    assert "evaluation" not in recipe_of(taken(tmp_path, as_yaml(eval_steps=50)))


def test_a_dotted_reward_is_a_function_in_a_file(tmp_path: Path) -> None:
    text = "model_name_or_path: owner/model\ndataset_name: owner/data\nreward_funcs: [pkg.mod.f, think_format_reward]\n"
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "mod.py").write_text("def f(completions, **kwargs):\n    return []\n", encoding="utf-8")
    one = taken(tmp_path, f"{text}reward_weights: [0.5, 2]\nreward_model_name_or_path: null\n")
    assert [line.fate for line in one.rows if line.key == "reward_funcs"] == ["emulated", "mapped"]
    rewards = recipe_of(one)["rewards"]
    assert (rewards[0], rewards[1]["weight"]) == ({"python": "pkg/mod.py:f", "weight": 0.5}, 2.0)


def test_rewards_of_trl_are_named_by_their_module(tmp_path: Path) -> None:
    names = "reasoning_accuracy_reward, get_soft_overlong_punishment, trl.rewards.accuracy_reward, trl.rewards.no_such"
    text = "model_name_or_path: owner/model\ndataset_name: owner/data\n"
    one = taken(tmp_path, f"{text}reward_funcs: [{names}]\n")
    fates = sorted(line.fate for line in one.rows if line.key == "reward_funcs")
    assert fates == ["emulated", "mapped", "mapped", "mapped"]
    lengths = {"max_completion_len": 1280, "soft_punish_cache": 256}
    assert recipe_of(one)["rewards"][:3] == [
        {"python": "trl.rewards:reasoning_accuracy_reward", "weight": 1.0},
        {"python": "trl.rewards:get_soft_overlong_punishment", "options": lengths, "weight": 1.0},
        {"python": "trl.rewards:accuracy_reward", "weight": 1.0},
    ]


def test_a_mixture_of_one_is_a_data_set(tmp_path: Path) -> None:
    text = "model_name_or_path: owner/model\nreward_funcs: [think_format_reward]\ndatasets: "
    one = taken(tmp_path, text + json.dumps([{"path": "a/b", "name": "main", "split": "part"}]))
    assert recipe_of(one)["dataset"] == {"path": "a/b", "name": "main", "split": "part"}


MIXTURE = [{"path": "a/math", "name": "main", "fraction": 0.75}, {"path": "b/math", "split": "x", "fraction": 0.25}]


def test_a_mixture_of_two_becomes_sources(tmp_path: Path) -> None:
    text = "model_name_or_path: owner/model\nreward_funcs: [think_format_reward]\nshuffle_dataset: true\nmax_steps: 9\n"
    two = taken(tmp_path, f"{text}dataset_name: owner/other\ndatasets: {json.dumps(MIXTURE)}")
    assert two.is_complete
    assert recipe_of(two)["datasets"] == [
        {"source": "math", "path": "a/math", "name": "main", "weight": 0.75},
        {"source": "math-2", "path": "b/math", "split": "x", "weight": 0.25},
    ]
    assert "dataset" not in recipe_of(two)
    assert "shuffle_dataset" not in recipe_of(two)["training"]
    assert (
        row(two, "datasets").because
        == "a fraction is a share of the prompts: TRL drops rows to get it, a recipe repeats some"
    )
    alike = taken(tmp_path, f"{text}datasets: {json.dumps([{'path': one['path']} for one in MIXTURE])}")
    assert [list(source) for source in recipe_of(alike)["datasets"]] == [["source", "path"]] * 2
    assert "each row is as likely" in row(alike, "datasets").because


@pytest.mark.parametrize(
    ("more", "because"),
    [
        ({"max_steps": -1}, "the sources of a mixture end at different times: write training.max_steps"),
        ({"streaming": True}, "a filter, a mixture and an exact resume need all rows and their number"),
        (
            {"datasets": [*MIXTURE, {"path": "c/d", "data_dir": "x", "fraction": 1}]},
            "a recipe has no key for data_dir of a dataset",
        ),
    ],
)
def test_what_a_mixture_cannot_say_is_refused(more: dict[str, Any], because: str, tmp_path: Path) -> None:
    given = {"model_name_or_path": "owner/model", "reward_funcs": ["think_format_reward"], "max_steps": 9}
    one = taken(tmp_path, json.dumps({**given, "datasets": MIXTURE, **more}))
    assert not one.is_complete
    assert [line for line in one.rows if line.fate == "refused" and because in line.because]


def test_a_part_of_a_data_set_of_open_r1_is_refused(tmp_path: Path) -> None:
    parts = [{"id": "a/math", "config": "main", "weight": 1.0, "columns": ["problem"]}, {"id": "b/code", "weight": 0.5}]
    given = {
        "model_name_or_path": "owner/model",
        "reward_funcs": ["accuracy"],
        "max_steps": 9,
        "system_prompt": "Think.",
    }
    one = taken(
        tmp_path, json.dumps({**given, "dataset_prompt_column": "problem", "dataset_mixture": {"datasets": parts}})
    )
    assert recipe_of(one)["datasets"] == [
        {"source": "math", "path": "a/math", "name": "main", "prompt": "{{ problem }}", "system_prompt": "Think."},
        {"source": "code", "path": "b/code", "prompt": "{{ problem }}", "system_prompt": "Think."},
    ]
    (refused,) = [line for line in one.rows if line.fate == "refused"]
    assert refused.because == "weight 0.5 of code is a part of the rows, whose number is not known here: write max_rows"


def test_the_newest_release_that_takes_the_keys_is_found_and_told(tmp_path: Path) -> None:
    one = taken(tmp_path, as_yaml(max_prompt_length=256, overwrite_output_dir=True), None)
    assert (one.release.trl, one.release.transformers) == ("0.27.2", "4.57.6")
    assert one.moved["beta"] == "0.04 from 0.14.0, 0.0 from 0.19.0"
    assert "beta" not in taken(tmp_path, as_yaml(max_prompt_length=256, beta=0.1), None).moved
    assert taken(tmp_path, BASE, None).release.trl == "1.16.0"


def test_a_release_that_is_not_known_is_refused(tmp_path: Path) -> None:
    for target in ("trl==0.99.0", "transformers==5.23.0", "trl>=1"):
        with pytest.raises(Refusal):
            taken(tmp_path, BASE, target)


def test_aliases_cannot_make_a_file_large(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(Refusal, match="more than"):
        taken(tmp_path, "\n".join(lines))


def test_secrets_in_env_are_refused_and_not_shown(tmp_path: Path) -> None:
    one = taken(tmp_path, as_yaml(env={"HF_TOKEN": "hf_secret", "TOKENIZERS_PARALLELISM": "false"}))
    assert recipe_of(one)["launch"]["environment"] == {"TOKENIZERS_PARALLELISM": "false"}
    assert row(one, "env.HF_TOKEN").fate == "refused"
    assert "hf_secret" not in one.text + str(one.rows)


def test_facts_of_a_release_are_those_of_its_pair() -> None:
    release = parse_release("trl==0.15.2,transformers==4.49.0")
    stack, _ = parse_target("trl==0.15.2,transformers==4.49.0")
    assert stack is not None
    assert release.fields == facts_for(stack).fields("GRPOConfig")


def test_a_script_of_ones_own_loads_the_model_as_it_says(tmp_path: Path) -> None:
    text = "model_name_or_path: owner/model\ndataset_name: owner/data\ntorch_dtype: bfloat16\n"
    one = taken(tmp_path, text, "trl==0.15.2")
    assert recipe_of(one)["model"]["dtype"] == "bfloat16"
    assert row(one, "reward_funcs").fate == "emulated"


@pytest.mark.parametrize(
    ("release", "vllm", "device"),
    [("trl==0.15.2", True, "cuda:0"), ("trl==0.15.2", False, None), ("trl==0.16.0", True, None)],
    ids=["where it is read", "without vLLM", "where nobody reads it"],
)
def test_the_device_of_vllm_stays_where_the_release_reads_it(
    release: str, vllm: bool, device: str | None, tmp_path: Path
) -> None:
    one = taken(tmp_path, as_yaml(use_vllm=vllm, vllm_device="cuda:0"), release)
    assert recipe_of(one).get("trl", {}).get("vllm_device") == device
    assert row(one, "vllm_device").fate == ("mapped" if device else "emulated")


@pytest.mark.parametrize(
    ("release", "fate"),
    [("trl==0.23.1", "mapped"), ("trl==0.25.1", "refused"), ("trl==0.27.2", "emulated"), (None, "refused")],
    ids=["it cuts", "it cuts otherwise", "it reads it nowhere", "whichever it was"],
)
def test_a_length_that_cuts_no_prompt_is_no_length(release: str | None, fate: str, tmp_path: Path) -> None:
    one = taken(tmp_path, as_yaml(max_prompt_length=256), release)
    assert row(one, "max_prompt_length").fate == fate
    if fate == "emulated":
        assert one.is_complete and "max_prompt_length" not in recipe_of(one).get("generation", {})


def test_a_default_that_cuts_otherwise_is_refused(tmp_path: Path) -> None:
    one = taken(tmp_path, BASE, "trl==0.25.1")
    assert row(one, "max_prompt_length (the default of trl 0.25.1)").fate == "refused"


def test_the_default_of_a_field_that_went_is_not_written(tmp_path: Path) -> None:
    """Open-r1 says `vllm_device: auto` in its configurations, which trl 0.18 and later take for an unknown field."""
    one = taken(tmp_path, as_yaml(use_vllm=True, vllm_device="auto", vllm_dtype="auto"), "trl==0.15.2")
    assert recipe_of(one)["trl"].get("vllm_device") is None
    assert recipe_of(one)["trl"]["vllm_dtype"] == "auto"
    assert row(one, "vllm_device").fate == "mapped"


def test_fields_that_the_release_lacks_are_not_written(tmp_path: Path) -> None:
    keys = as_yaml(use_vllm=True, vllm_mode="colocate", steps_per_generation=8)
    recipe = recipe_of(one := taken(tmp_path, keys, "trl==0.17.0"))
    assert "no such field" in row(one, "vllm_mode").because
    assert (recipe["generation"].get("vllm_mode"), row(one, "steps_per_generation").fate) == ("server", "refused")
    assert "optimizer_steps_per_generation" not in recipe["grpo"]


def test_what_a_shim_does_as_later_releases_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = classified_fields()
    with_shim = {"trl": "<0.16", "when": [["shims", "contains", "warm"]], "only": "any", "because": "the shim"}
    without = {"trl": "<0.16", "only": [1.0], "because": "the loss is without it"}
    for rows, fate in (((with_shim, without), "emulated"), ((without,), "refused")):
        temperature = fields["temperature"]._replace(expressed=rows)
        monkeypatch.setattr(
            old_defaults, "classified_fields", lambda field=temperature: {**fields, "temperature": field}
        )
        one = taken(tmp_path, BASE, "trl==0.14.0")
        said = row(one, "temperature (the default of trl 0.14.0)")
        assert (said.fate, "the loss is without it" in said.because) == (fate, True)
        assert row(taken(tmp_path, as_yaml(temperature=0.7), "trl==0.14.0"), "temperature").fate == fate


BEST = {"eval_strategy": "steps", "eval_steps": 50, "load_best_model_at_end": True}


def test_the_best_checkpoint_by_reward_becomes_that_of_the_recipe(tmp_path: Path) -> None:
    one = taken(tmp_path, as_yaml(**BEST, metric_for_best_model="eval_reward", greater_is_better=True, save_steps=100))
    assert recipe_of(one)["evaluation"]["keep_best"] is True
    # TRL compares the evaluations that have a checkpoint; here each one has.
    assert recipe_of(one)["training"]["save_steps"] == 50
    keys = ("load_best_model_at_end", "metric_for_best_model", "greater_is_better", "save_steps")
    assert [row(one, key).fate for key in keys] == ["mapped", "mapped", "mapped", "emulated"]


def test_a_share_of_all_steps_is_their_number_where_that_is_said(tmp_path: Path) -> None:
    shares = {"max_steps": 205, "save_steps": 0.1, "logging_steps": 0.01}
    one = taken(tmp_path, as_yaml(**{**BEST, "eval_steps": 0.1}, metric_for_best_model="eval_reward", **shares))
    recipe = recipe_of(one)
    assert recipe["evaluation"]["every_steps"] == recipe["training"]["save_steps"] == 21
    assert recipe["evaluation"]["keep_best"] is True
    assert recipe["logging"]["logging_steps"] == 3
    assert {row(one, key).fate for key in ("eval_steps", "save_steps", "logging_steps")} == {"mapped"}


@pytest.mark.parametrize(
    ("keys", "because"),
    [
        (BEST, "it takes the least loss; evaluation.keep_best uses the held-out reward"),
        ({**BEST, "metric_for_best_model": "eval_rewards/accuracy/mean"}, "the greatest eval_rewards/accuracy/mean"),
        ({**BEST, "metric_for_best_model": "reward", "greater_is_better": False}, "it takes the least reward"),
        ({**BEST, "eval_strategy": "epoch", "eval_steps": None}, "write evaluation.every_steps with"),
        ({"load_best_model_at_end": "true"}, "it needs evaluations by steps"),
    ],
    ids=["the loss, by default", "another figure", "the least reward", "by epochs", "no evaluation"],
)
def test_another_best_checkpoint_is_named_with_its_home(keys: dict[str, object], because: str, tmp_path: Path) -> None:
    one = taken(tmp_path, as_yaml(**keys))
    assert "keep_best" not in recipe_of(one).get("evaluation", {})
    said = row(one, "load_best_model_at_end")
    assert (said.fate, said.where) == ("refused", ("evaluation.keep_best",))
    assert because in said.because


def test_a_best_checkpoint_that_nobody_asks_for_changes_nothing(tmp_path: Path) -> None:
    one = taken(tmp_path, as_yaml(load_best_model_at_end=False, metric_for_best_model=None, greater_is_better=None))
    assert "evaluation" not in recipe_of(one)
