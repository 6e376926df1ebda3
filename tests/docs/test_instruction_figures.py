"""The check of counted instructions notices what it is there for, and says what it did not look at."""

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
KEPT: Mapping[str, float] = json.loads((ROOT / "benchmarks/instructions.json").read_text(encoding="utf-8"))["floors"]


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """benchmarks/instructions.py, which is a program and no part of a package."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    spec = importlib.util.spec_from_file_location("counted_instructions", ROOT / "benchmarks/instructions.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_kept_figures_hold(gate: ModuleType) -> None:
    assert gate.too_much(KEPT, KEPT) == []
    assert set(KEPT) == set(gate.CASES) - {"floor"}


@pytest.mark.parametrize("more", [1.0, 1.02, 0.5])
def test_a_difference_below_three_in_a_hundred_is_none(gate: ModuleType, more: float) -> None:
    assert gate.too_much({**KEPT, "validate": KEPT["validate"] * more}, KEPT) == []


@pytest.mark.parametrize("name", KEPT)
def test_five_in_a_hundred_more_are_noticed_in_each_command(gate: ModuleType, name: str) -> None:
    wrong = gate.too_much({**KEPT, name: KEPT[name] * 1.05}, KEPT)
    assert any(line.startswith(f"{name}: ") and "+5.0%" in line for line in wrong)


def test_a_bound_holds_also_where_no_figure_is_kept(gate: ModuleType) -> None:
    (wrong,) = gate.too_much({**KEPT, "plan": 2.7}, {})
    assert wrong == "plan: 2.700 floors, at most 2.6"


def test_figures_of_other_versions_are_not_held_against_these(
    gate: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    on = json.loads(gate.FIGURES.read_text(encoding="utf-8"))["on"]
    assert gate.kept_figures(on) == KEPT
    assert gate.kept_figures({**on, "pydantic": "1.0"}) == {}
    assert "pydantic 1.0 here" in capsys.readouterr().out


def test_a_machine_on_which_nothing_counts_says_so(
    gate: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("sys.argv", ["instructions.py", "--check"])
    assert gate.main() == 0
    assert "nothing was counted: there is neither valgrind nor perf" in capsys.readouterr().out
