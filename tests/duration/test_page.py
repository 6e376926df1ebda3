"""The page of published seconds is what its script writes."""

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "duration.py"


def test_the_page_is_that_of_these_formulas() -> None:
    spec = importlib.util.spec_from_file_location("duration_benchmark", SCRIPT)
    assert spec is not None and spec.loader is not None
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    assert SCRIPT.with_suffix(".md").read_text(encoding="utf-8") == benchmark.page()
