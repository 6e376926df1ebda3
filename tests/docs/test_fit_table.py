"""The table of docs/fit-table.md is what its script writes, and the recipe beside it is a recipe."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "fit_table.py"
_SPEC = importlib.util.spec_from_file_location("fit_table", SCRIPT)
assert _SPEC is not None and _SPEC.loader is not None
fit_table = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(fit_table)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = Path(tmp_path_factory.mktemp("table"), "table.yaml")
    path.write_text(fit_table.RECIPE)
    return str(path)


def test_the_rows_of_two_models_are_what_the_rules_say_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_table, "MODELS", fit_table.MODELS[::5])
    kept = fit_table.PAGE.read_text(encoding="utf-8").splitlines()
    assert [line for line in fit_table.made().splitlines() if line not in kept] == [], "benchmarks/fit_table.py --write"


@pytest.mark.long
def test_the_table_is_what_the_rules_say_now() -> None:
    assert fit_table.page() == fit_table.PAGE.read_text(encoding="utf-8"), "benchmarks/fit_table.py --write"


def test_a_small_and_a_large_model_have_their_own_micro_batches_on_the_same_gpus(recipe: str) -> None:
    small, large = (
        fit_table.cell(fit_table.resolved(recipe, f"Qwen/Qwen2.5-{size}", "QLoRA", 8, "A100-80GB"))
        for size in ("0.5B", "72B")
    )
    assert (small.split()[1:], large.split()[1:]) == (["ddp", "16\\*"], ["ddp", "8"])


def test_a_cell_is_what_plan_says(recipe: str, grpo_run: Callable) -> None:
    target = "tested,vllm==0.30.0,gpus=8xA100-80GB"
    said = grpo_run("fit", recipe, "--target", target).out
    cell = fit_table.cell(fit_table.resolved(recipe, "Qwen/Qwen2.5-7B", "full", 8, "A100-80GB"))
    needed, strategy, size = cell.split()
    assert f"fits, {needed} of 80.0 GiB" in said
    assert f"({strategy}, 8 processes, micro-batch {size})" in said
