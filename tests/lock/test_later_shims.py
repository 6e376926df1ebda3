"""A run that was planned before a shim came goes on without it: one run trains one way."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from project import STACK, make_project, planned


@pytest.mark.parametrize("shim", ["equal_rewards", "less_padding"])
@pytest.mark.parametrize("is_older", [True, False])
def test_the_shim_of_a_run_stays_as_it_was(is_older: bool, shim: str, tmp_path: Path, grpo_run: Callable) -> None:
    run = planned(make_project(tmp_path / "a"), grpo_run)
    plan = json.loads((run / "plan.json").read_text())
    assert plan["shims"][shim]
    if is_older:
        del plan["shims"][shim]
        plan["settings"] = [row for row in plan["settings"] if row["key"] != f"shims.{shim}"]
    sent = tmp_path / "a" / "plan.json"
    sent.write_text(json.dumps(plan))
    answer = grpo_run(str(sent), "--target", STACK, "--validate-only", "--json")
    assert answer.code == 0, answer.out + answer.err
    assert [line for line in json.loads(answer.out)["lines"] if line["state"] != "same"] == []
    again = tmp_path / "again"
    answer = grpo_run(str(sent), "--target", STACK, "--dry-run", "--out", str(again))
    assert answer.code == 0, answer.err
    assert (shim in json.loads((again / "plan.json").read_text())["shims"]) == (not is_older)
