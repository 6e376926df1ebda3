"""Fields and parameters are read from source text as the library itself would build them."""

from pathlib import Path

import pytest
from source_trees import PEFT, TRANSFORMERS, TRL, write_package

from grpo_recipes.facts.source.field import REQUIRED, UNKNOWN, Field, NoDefault, from_json_value, to_json_value
from grpo_recipes.facts.source.package_facts import PackageFacts, package_from_json_value, package_to_json_value
from grpo_recipes.facts.source.package_source import PackageSource
from grpo_recipes.facts.source.read_package import read_package


def read(folder: Path, files: dict[str, str]) -> PackageFacts:
    package = write_package(folder, files)
    facts = read_package(PackageSource(package.name, package), "1.0")
    assert facts is not None
    return facts


@pytest.mark.parametrize(
    ("name", "default"),
    [
        pytest.param("beta", 0.0, id="literal"),
        pytest.param("scale_rewards", "group", id="without-field"),
        pytest.param("reward_weights", None, id="none"),
        pytest.param("kwargs", {}, id="factory"),
        pytest.param("names", ["a", "b"], id="lambda"),
        pytest.param("computed", UNKNOWN, id="computed"),
        pytest.param("required", REQUIRED, id="required"),
        pytest.param("logging_steps", 10, id="of-the-base"),
    ],
)
def test_a_default_is_the_value_that_the_class_gives(tmp_path: Path, name: str, default: object) -> None:
    assert read(tmp_path, TRL).owners["GRPOConfig"].fields[name].default == default


def test_only_what_the_constructor_takes_is_a_field(tmp_path: Path) -> None:
    config = read(tmp_path, TRL).owners["GRPOConfig"]
    assert config.bases == ("TrainingArguments",)
    assert not {"_VALID", "hidden"} & set(config.fields)
    assert config.fields["reward_weights"].annotation == "list[float] | None"


def test_a_class_attribute_without_annotation_is_no_field(tmp_path: Path) -> None:
    fields = read(tmp_path, TRANSFORMERS).owners["TrainingArguments"].fields
    assert list(fields) == ["output_dir", "eval_strategy", "optim", "logging_steps"]
    assert fields["optim"].default is UNKNOWN


def test_a_derived_class_overrides_its_base(tmp_path: Path) -> None:
    fields = read(tmp_path, PEFT).owners["LoraConfig"].fields
    assert list(fields) == ["task_type", "revision", "r", "bias", "init_lora_weights"]
    assert fields["task_type"].default == "CAUSAL_LM"


def test_constructor_parameters_are_read_without_self_and_kwargs(tmp_path: Path) -> None:
    trainer = read(tmp_path, TRL).owners["GRPOTrainer"].fields
    assert list(trainer) == ["model", "args", "quantization_config"]
    assert (trainer["model"].default, trainer["args"].default) == (REQUIRED, None)
    quantization = read(tmp_path, TRANSFORMERS).owners["BitsAndBytesConfig"].fields
    assert list(quantization) == ["load_in_4bit", "threshold", "bnb_4bit_quant_type", "storage"]
    assert quantization["threshold"] == Field("threshold", "", 6.0, None)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("trl/trainer/grpo_config.py", "class GRPOConfig(:\n", id="not-python"),
        pytest.param("trl/trainer/grpo_config.py", "x = '\0'", id="binary"),
        pytest.param("trl/trainer/grpo_trainer.py", "class PPOTrainer: ...\n", id="class-is-elsewhere"),
    ],
)
def test_a_package_of_another_shape_gives_no_facts(tmp_path: Path, path: str, text: str) -> None:
    package = write_package(tmp_path, {**TRL, path: text})
    assert read_package(PackageSource("trl", package), "1.0") is None


def test_bases_that_import_each_other_in_a_circle_end(tmp_path: Path) -> None:
    files = {
        "trl/__init__.py": "",
        "trl/a.py": "from .b import Missing\n",
        "trl/b.py": "from .a import Missing\n",
    }
    package = write_package(tmp_path, files)
    assert PackageSource("trl", package).find_class("trl.a", "Missing") is None


def test_facts_survive_their_json(tmp_path: Path) -> None:
    for files in (TRL, TRANSFORMERS, PEFT):
        facts = read(tmp_path, files)
        assert package_from_json_value(package_to_json_value(facts)) == facts


def test_a_missing_default_is_a_plain_string_in_json() -> None:
    for default in NoDefault:
        value = to_json_value(Field("a", "int", default))
        assert value == {"annotation": "int", "default": str(default.value)}
        assert from_json_value("a", value).default is default
