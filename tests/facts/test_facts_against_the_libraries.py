"""What is read from source is what the imported libraries say, and the shipped data has not drifted."""

import json
import re
import subprocess
from collections.abc import Callable
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest
from collect_facts import declared_windows

from grpo_recipes.facts.facts import Facts, facts_for
from grpo_recipes.facts.released.logits import logits_keyword_installed, logits_keyword_of_release
from grpo_recipes.facts.released.model_types import installed_has_type, releases_with_type, types_of_all_releases
from grpo_recipes.facts.released.requirements import requirements
from grpo_recipes.facts.released.shipped import facts_of_release
from grpo_recipes.facts.source.field import UNKNOWN
from grpo_recipes.facts.source.package_facts import METHODS, MODULES, package_folder, package_to_json_value
from grpo_recipes.facts.source.package_source import PackageSource
from grpo_recipes.facts.source.read_package import read_package
from grpo_recipes.stack.probe import probe
from grpo_recipes.stack.stack import installed_packages

pytestmark = pytest.mark.stack

LIVE_FIELDS = """
import dataclasses, inspect, json
from peft import LoraConfig
from transformers import BitsAndBytesConfig, TrainingArguments
from trl import GRPOConfig, GRPOTrainer
def shown(value):
    try:
        return json.loads(json.dumps(value))
    except TypeError:
        return "not json"
def default(field):
    if field.default is not dataclasses.MISSING:
        return shown(field.default)
    return shown(field.default_factory())
answer = {
    owner.__name__: {f.name: default(f) for f in dataclasses.fields(owner) if f.init}
    for owner in (GRPOConfig, TrainingArguments, LoraConfig)
}
parameters = inspect.signature(BitsAndBytesConfig.__init__).parameters.values()
answer["BitsAndBytesConfig"] = {
    p.name: shown(p.default) for p in parameters if p.name != "self" and p.kind is not p.VAR_KEYWORD
}
answer["GRPOTrainer"] = [name for name in inspect.signature(GRPOTrainer.__init__).parameters if name != "self"]
print(json.dumps(answer))
"""

# Each closed set of TrainingArguments is tried at construction: all its values, then one that is not in it.
TRY_ENUMERATIONS = """
import json, sys
from transformers import TrainingArguments
refused = {}
for name, values in json.loads(sys.argv[1]).items():
    extra = {"eval_strategy": "steps", "save_strategy": "no"}
    refused[name] = []
    for value in [*values, "nonsense"]:
        try:
            TrainingArguments(output_dir="out", use_cpu=True, report_to=[], **{**extra, name: value})
        except ValueError as error:
            refused[name].append([value, str(error)])
print(json.dumps(refused))
"""

TRY_QUANTIZATION = """
import json, sys
import bitsandbytes.functional, torch
from transformers import BitsAndBytesConfig
accepted = []
for value in json.loads(sys.argv[1]):
    try:
        BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_storage=value)
        accepted.append(value)
    except ValueError:
        pass
for value in json.loads(sys.argv[2]):
    try:
        bitsandbytes.functional.quantize_4bit(torch.ones(64, 64), quant_type=value)
        accepted.append(value)
    except (NotImplementedError, ValueError):
        pass
print(json.dumps(accepted))
"""

LIVE_TYPES = """
import json
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
print(json.dumps(list(CONFIG_MAPPING)))
"""


@pytest.fixture(scope="module")
def facts() -> Facts:
    """The facts of this machine."""
    return facts_for(probe())


@pytest.fixture(scope="module")
def run(warm_python: Path) -> Callable[..., Any]:
    """The JSON that a Python program prints last, in its own process."""

    def ask(code: str, *arguments: str) -> Any:
        command = [str(warm_python / "python"), "-Xwarm", "-c", code, *arguments]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        return json.loads(answer.stdout.splitlines()[-1])

    return ask


def test_the_fields_are_those_of_the_live_classes(facts: Facts, run: Callable[..., Any]) -> None:
    live = run(LIVE_FIELDS)
    assert list(facts.parameters("GRPOTrainer") or ()) == live.pop("GRPOTrainer")
    for owner, expected in live.items():
        fields = facts.fields(owner)
        assert fields is not None
        assert set(fields) == set(expected), owner
        read = {name: field.default for name, field in fields.items() if field.default is not UNKNOWN}
        assert read == {name: expected[name] for name in read}, owner
        assert len(fields) - len(read) <= 1, f"{owner}: defaults that are computed"


def test_training_arguments_accepts_exactly_the_values_of_its_closed_sets(
    facts: Facts, run: Callable[..., Any]
) -> None:
    fields = facts.fields("TrainingArguments")
    assert fields is not None
    closed = {name: field.allowed for name, field in fields.items() if field.allowed is not None}
    assert set(closed) == {
        "eval_strategy",
        "hub_strategy",
        "logging_strategy",
        "lr_scheduler_type",
        "optim",
        "save_strategy",
    }
    for name, refused in run(TRY_ENUMERATIONS, json.dumps(closed)).items():
        assert [value for value, _ in refused] == ["nonsense"], name
        values = refused[0][1].partition("select one of ")[2]
        assert values == str(list(closed[name] or ())), name


def test_quantization_accepts_exactly_the_values_of_its_closed_sets(facts: Facts, run: Callable[..., Any]) -> None:
    fields = facts.fields("BitsAndBytesConfig")
    assert fields is not None
    storages = [*(fields["bnb_4bit_quant_storage"].allowed or ()), "int4"]
    types = [*(fields["bnb_4bit_quant_type"].allowed or ()), "nf5", "int8"]
    accepted = run(TRY_QUANTIZATION, json.dumps(storages), json.dumps(types))
    assert accepted == [*storages[:-1], *types[:-2]]


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("loss_type", 'raise ValueError(f"Unknown loss type: {self.loss_type}")'),
        ("importance_sampling_level", "Possible values are 'token' \"\n                \"and 'sequence'."),
        ("scale_rewards", "Must be one of 'batch', 'group', or 'none'."),
        ("multi_objective_aggregation", "'sum_then_normalize' or 'normalize_then_sum'."),
        (
            "vllm_importance_sampling_mode",
            "'token_truncate', 'token_mask', 'sequence_truncate', and 'sequence_mask'.",
        ),
        ("vllm_mode", "vllm_mode must be either 'server' or 'colocate'"),
    ],
)
def test_the_trainer_refuses_what_is_outside_a_closed_set(facts: Facts, name: str, refusal: str) -> None:
    fields = facts.own_fields("GRPOConfig")
    assert fields is not None
    allowed = fields[name].allowed
    assert allowed is not None
    folder = package_folder("trl")
    assert folder is not None
    files = ("trainer/grpo_trainer.py", "generation/vllm_generation.py")
    text = "".join((folder / file).read_text() for file in files)
    assert refusal in text
    words = {value for value in allowed if isinstance(value, str)}
    named = {part for part in refusal.split("'")[1::2] if part.replace("_", "").isalpha()}
    # This message names no values; the documentation of the class does.
    assert words == (documented_loss_types(folder) if name == "loss_type" else named)


def documented_loss_types(trl: Path) -> set[str]:
    """The values that the docstring of GRPOConfig lists under loss_type, one bullet each."""
    text = (trl / "trainer/grpo_config.py").read_text()
    described = text.partition("        loss_type (`str`")[2].partition("        mask_truncated_completions (")[0]
    return set(re.findall(r'^ +- `"(\w+)"`', described, re.MULTILINE))


def test_the_shipped_data_is_what_the_installed_packages_say() -> None:
    for package, version in installed_packages().items():
        folder = package_folder(package) if package in MODULES else None
        if version is None or folder is None:
            continue
        read = read_package(PackageSource(package, folder), version)
        assert read is not None
        shipped = facts_of_release(package, version)
        assert shipped is not None, f"{package} {version}: run make facts"
        assert package_to_json_value(shipped) == package_to_json_value(read), f"{package}: run make facts"
        for method in set(METHODS) & set(read.owners):
            assert list(shipped.owners[method].fields) == list(read.owners[method].fields), method


def test_the_shipped_logits_keywords_are_those_of_the_installed_transformers() -> None:
    version = installed_packages()["transformers"]
    assert version is not None
    for model_class in ("Qwen2ForCausalLM", "GPT2LMHeadModel", "Gemma3ForConditionalGeneration"):
        keyword = logits_keyword_installed(model_class)
        assert keyword is not None
        assert logits_keyword_of_release(version, model_class) == keyword


def test_the_model_types_are_those_of_the_installed_transformers(run: Callable[..., Any]) -> None:
    version, live = installed_packages()["transformers"], set(run(LIVE_TYPES))
    known = types_of_all_releases()
    assert {name for name in known if version in releases_with_type(name)} == live
    assert {name for name in known | {"qwen9"} if installed_has_type(name)} == live


def test_the_shipped_windows_are_those_of_the_installed_metadata() -> None:
    for package, version in installed_packages().items():
        declared = requirements(package, version) if version is not None else None
        if declared is None:
            continue
        windows = declared_windows(str(metadata(package)))
        shown = {f"{r.name} for {r.extra}" if r.extra else r.name: r.specifier for r in declared}
        assert shown == windows, f"{package}: run make facts"
