"""WLD002 on this machine: nothing is guessed where its driver does not answer; a target may leave its GPUs open."""

from pathlib import Path
from typing import Any

import pytest
from rule_cases import BASE_RECIPE, declared, laid_over, resolved

THIS_MACHINE = declared()._replace(gpus=None, declared=False, origin="this machine")
UNKNOWN = "the number of GPUs in this machine is unknown"


@pytest.mark.parametrize(
    ("recipe", "is_refused"),
    [
        ({"launch": {"gpus_per_node": 1}}, False),
        ({"launch": {"gpus_per_node": 0}}, False),
        ({"training": {"prompts_per_step": 4, "cut": {"processes": 2, "micro_batch": 16}}}, False),
        ({}, True),
        ({"launch": {"gpus_per_node": "auto"}}, True),
    ],
    ids=["one", "none", "as many as the recipe's cut has", "nothing is said", "auto"],
)
def test_gpus_that_the_driver_does_not_show_are_asked_for(
    recipe: dict[str, Any], is_refused: bool, tmp_path: Path
) -> None:
    found = [
        one for one in resolved(laid_over(BASE_RECIPE, recipe), THIS_MACHINE, tmp_path).findings if one.rule == "WLD002"
    ]
    errors = [one for one in found if one.severity == "error"]
    assert [one.message for one in errors] == ([UNKNOWN] if is_refused else [])
    assert all("0 trains on the CPU" in str(one.fix) for one in errors)


def test_a_target_may_leave_its_gpus_open(tmp_path: Path) -> None:
    stack = declared({"gpus": None})
    assert stack.gpus is None and stack.declared
    assert not [one for one in resolved(BASE_RECIPE, stack, tmp_path).findings if one.rule == "WLD002"]
