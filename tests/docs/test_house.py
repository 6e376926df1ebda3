"""docs/how-it-works.md has the size and structure of the package; `make docs` writes them."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_counts_of_this_tree() -> None:
    table = runpy.run_path(str(ROOT / "benchmarks" / "house.py"))["table"]
    assert table() in (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8"), "run make docs"
