"""DSP001: which keys DeepSpeed looks for, and what it does with others."""

from typing import Any

import pytest
from deepspeed_answers import answers, step
from library import Library

from grpo_recipes.facts.deepspeed_keys import deepspeed_keys
from grpo_recipes.stack.stack import installed_packages

pytestmark = pytest.mark.stack

ZERO2 = {"stage": 2}
BATCH = {"train_batch_size": 1, "train_micro_batch_size_per_gpu": 1}
NAMED = {"optimizer": {"type": "Adam", "params": {}}, "scheduler": {"type": "WarmupLR", "params": {}}}
# Looked for by deepspeed.initialize, before DeepSpeedConfig.
BEFORE = {"sequence_parallel_size", "data_parallel_size"}
Answers = dict[str, dict[str, Any]]


def _for_trainer(**config: Any) -> dict[str, Any]:
    return {"call": "for_trainer", "arguments": {"config": {"zero_optimization": ZERO2, **config}}}


@pytest.fixture(scope="module")
def found(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What DeepSpeed makes of all cases of this file."""
    whole = {**BATCH, **NAMED, "zero_optimization": ZERO2, "aio": {}}
    cases = {
        "keys": {"call": "config_keys", "arguments": {"config": whole}},
        "plain": step(zero_optimization=ZERO2),
        "misspelt": step(zero_optimization=ZERO2, zero_optimisation={"stage": 9}),
        "misspelt inside": step(zero_optimization={**ZERO2, "overlap_coms": True}),
        "misspelt offload": step(zero_optimization={**ZERO2, "offload_param": {"devise": "cpu"}}),
        "left to the trainer": _for_trainer(),
        "optimizer": _for_trainer(optimizer={"type": "Adam", "params": {"lr": "auto"}}),
        "micro-batch": _for_trainer(train_micro_batch_size_per_gpu=2),
        "clipping": _for_trainer(gradient_clipping=0.1),
        "the same clipping": _for_trainer(gradient_clipping=0.5),
        "precision": _for_trainer(bf16={"enabled": True}),
        **{name: step(zero_optimization=ZERO2, **{name: {}}) for name in deepspeed_keys().removed},
    }
    return answers(cases, library, tmp_path_factory.mktemp("keys"))


def test_the_table_is_what_the_installed_release_looks_for(found: Answers) -> None:
    known, real = deepspeed_keys(), found["keys"]["result"]
    if installed_packages().get("deepspeed") != known.release:
        pytest.skip(f"the table is of deepspeed {known.release}")
    assert known.read | known.removed == set(real["top"]) | BEFORE
    sections = {path.rpartition(".")[2]: fields for path, fields in known.sections.items()}
    assert sections == {name: frozenset(real[name]) for name in sections}


def test_an_unknown_key_is_ignored_without_a_word(found: Answers) -> None:
    assert found["misspelt"] == found["plain"]
    assert found["plain"]["raised"] == ""


@pytest.mark.parametrize("case", ["misspelt inside", "misspelt offload"])
def test_an_unknown_field_of_a_section_raises_when_training_starts(case: str, found: Answers) -> None:
    assert found[case]["raised"] == "ValidationError"
    assert "Extra inputs are not permitted" in found[case]["text"]


@pytest.mark.parametrize("name", sorted(deepspeed_keys().removed))
def test_a_removed_feature_raises(name: str, found: Answers) -> None:
    assert found[name]["raised"] == "DeepSpeedConfigError"


def test_an_optimizer_in_the_file_takes_the_place_of_the_trainers(found: Answers) -> None:
    assert found["left to the trainer"]["result"] == "own"
    assert found["optimizer"]["result"] == "DummyOptim"


@pytest.mark.parametrize("case", ["micro-batch", "clipping", "precision"])
def test_another_value_than_the_trainers_is_refused_when_training_starts(case: str, found: Answers) -> None:
    assert found[case]["raised"] == "ValueError"
    assert "Please correct the following DeepSpeed config values that mismatch" in found[case]["text"]


def test_an_equal_value_is_the_trainers(found: Answers) -> None:
    assert (found["the same clipping"]["raised"], found["the same clipping"]["result"]) == ("", "own")


def test_every_owned_key_is_one_that_is_read() -> None:
    known = deepspeed_keys()
    assert {name.partition(".")[0] for name in known.owned} <= known.read
    inside = {name.rpartition(".")[::2] for name in known.owned if name.rpartition(".")[0] in known.sections}
    assert all(field in known.sections[section] for section, field in inside)
