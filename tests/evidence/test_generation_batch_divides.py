"""BAT002 refuses a generation batch if and only if GRPOConfig does."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from library import Library
from planned import resolved

pytestmark = pytest.mark.stack

FIELDS: list[dict[str, Any]] = [
    *({"gradient_accumulation_steps": steps} for steps in (1, 3, 4)),
    *({"steps_per_generation": steps} for steps in (1, 2, 8)),
    *({"generation_batch_size": size} for size in (2, 6, 16, 24)),
    {"generation_batch_size": 16, "steps_per_generation": 2},
    {"generation_batch_size": 24, "gradient_accumulation_steps": 2},
]


def test_the_rule_refuses_what_grpo_config_refuses_and_nothing_else(library: Library, tmp_path: Path) -> None:
    shapes = list(itertools.product((1, 3, 8), (1, 2, 3), (2, 8), FIELDS))
    cases, rule = [], []
    for size, world, generations, fields in shapes:
        training = {"per_device_train_batch_size": size, "max_steps": 1}
        found = resolved(tmp_path, world, {"num_generations": generations}, training, trl=fields).findings
        assert {finding.rule for finding in found if finding.severity == "error"} <= {"BAT002"}
        rule.append(any(finding.rule == "BAT002" for finding in found))
        passed = {"per_device_train_batch_size": size, "num_generations": generations, **fields}
        cases.append([world, passed])
    library_refuses = [isinstance(answer, str) for answer in library.call("configs", cases=cases).result]
    disagreements = [(case, r) for case, r, real in zip(cases, rule, library_refuses, strict=True) if r != real]
    assert disagreements == []
    assert 0.1 < sum(rule) / len(rule) < 0.9


@pytest.mark.parametrize("field", ["generation_batch_size", "steps_per_generation", "gradient_accumulation_steps"])
def test_a_batch_of_nothing_fails_after_the_model_was_loaded(library: Library, field: str) -> None:
    answer = library.call("train", arguments={field: 0})
    assert (answer.stage, answer.raised) == ("train", "ValueError")
    assert "batch_size should be a positive integer" in answer.text
