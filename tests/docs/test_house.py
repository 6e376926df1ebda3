"""No room of the package grows beyond its budget in tests/budget.yaml, and no budget is raised without a reason."""

import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
BUDGET = "tests/budget.yaml"
MOST_SLACK = 20
"""Lines by which a budget may exceed its room."""


def _budget_of(revision: str) -> dict[str, Any]:
    shown = subprocess.run(
        ["git", "show", f"{revision}:{BUDGET}"], cwd=ROOT, capture_output=True, encoding="utf-8", check=False
    )
    return yaml.safe_load(shown.stdout) if shown.returncode == 0 else {}


def test_every_room_keeps_its_budget() -> None:
    lines = runpy.run_path(str(ROOT / "benchmarks" / "house.py"))["room_lines"]()
    rooms = yaml.safe_load((ROOT / BUDGET).read_text(encoding="utf-8"))["rooms"]
    assert rooms.keys() == lines.keys()
    grown = {room: f"{count} lines, at most {rooms[room]}" for room, count in lines.items() if count > rooms[room]}
    assert grown == {}, "make it smaller, or raise the budget with a reason"
    shrunk = {room for room, count in lines.items() if rooms[room] - count > MOST_SLACK}
    assert shrunk == set(), "run benchmarks/house.py --lower"


@pytest.mark.processes
def test_a_raised_budget_has_its_reason() -> None:
    now, before = yaml.safe_load((ROOT / BUDGET).read_text(encoding="utf-8")), _budget_of("HEAD~1")
    if not before:
        pytest.skip("no earlier budget: git is missing, or this is the first commit with it")
    reasons = {(one["room"], one["to"]) for one in now["raised"] if one["because"].strip()}
    raised = {(room, most) for room, most in now["rooms"].items() if most > before["rooms"].get(room, 0)}
    assert raised <= reasons
