"""DSP003: which values DeepSpeed and accelerate take, and the rule's agreement with them."""

from typing import Any

import pytest
from deepspeed_answers import answers
from library import Library

from grpo_recipes.facts.deepspeed_keys import deepspeed_keys
from grpo_recipes.rules.deepspeed_values_are_read import FILLED, _unlike
from grpo_recipes.stack.stack import installed_packages

pytestmark = pytest.mark.stack

ZERO = "zero_optimization"
VALUES: dict[str, list[tuple[str, object]]] = {
    ZERO: [("reduce_bucket_size", value) for value in ("5e8", "500", 5.5, 5e8, 0, 1, -1, None, True, "x", float("inf"))]
    + [("overlap_comm", value) for value in (None, "yes", "true", "maybe", 0, 2, 1.0)]
    + [("contiguous_gradients", value) for value in (None, False, "off", 3)],
    "bf16": [("check_grad_overflow", value) for value in (True, "x", None)],
    "fp16": [("auto_cast", "x"), ("initial_scale_power", 8), ("initial_scale_power", 1.5), ("hysteresis", "2")],
}
NOT_FILLED = (f"{ZERO}.overlap_comm", f"{ZERO}.allgather_bucket_size")
Answers = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def found(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What DeepSpeed makes of all cases of this file."""
    cases: dict[str, dict[str, Any]] = {"kinds": {"call": "value_kinds", "arguments": {}}}
    for section, pairs in VALUES.items():
        for name, value in pairs:
            arguments = {"section": section, "values": {name: value}}
            cases[f"{section}.{name} {value!r}"] = {"call": "built", "arguments": arguments}
    configs = [{ZERO: {"stage": 2, name.rpartition(".")[2]: "auto"}} for name in (*sorted(FILLED), *NOT_FILLED)]
    cases["auto"] = {"call": "filled", "arguments": {"configs": configs}}
    return answers(cases, library, tmp_path_factory.mktemp("values"))


def test_the_table_is_what_the_classes_of_the_installed_release_declare(found: Answers) -> None:
    known, real = deepspeed_keys(), found["kinds"]["result"]
    if installed_packages().get("deepspeed") != known.release:
        pytest.skip(f"the table is of deepspeed {known.release}")
    assert {path.rpartition(".")[2]: dict(kinds) for path, kinds in known.values.items()} == {
        section: one["kinds"] for section, one in real.items()
    }


def test_a_value_is_refused_if_and_only_if_its_class_refuses_it(found: Answers) -> None:
    for section, pairs in VALUES.items():
        for name, value in pairs:
            answer = found[f"{section}.{name} {value!r}"]
            refused = bool(_unlike(value, deepspeed_keys().values[section][name]))
            assert refused == (answer["raised"] == "ValidationError"), (name, value, answer)


def test_auto_is_filled_in_for_these_keys_alone(found: Answers) -> None:
    raised = dict(zip((*sorted(FILLED), *NOT_FILLED), found["auto"]["result"], strict=True))
    assert [name for name in FILLED if raised[name]] == []
    assert all("without `auto`" in raised[name] for name in NOT_FILLED), raised
