"""The code of docs/api.md gives what the page shows."""

import doctest
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_recipe import STACK

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "api.md"


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grpo_run: Callable[..., Any]) -> None:
    """A folder with the shipped recipes and two runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    for number, rate in ((1, "0.0005"), (2, "0.002")):
        folder = Path("runs") / f"addition-{number}"
        words = ("--dry-run", "--target", STACK, "--set", f"training.learning_rate={rate}", "--out", str(folder))
        assert grpo_run("recipes/quickstart.yaml", *words).code == 0
        started = f"2026-01-0{number}T00:00:00+00:00"
        record = {"run": 1, "status": "completed", "step": 3, "max_steps": 3, "started": started, "ended": started}
        (folder / "run.json").write_text(json.dumps(record))
        events = [{"event": "evaluation", "step": 0, "reward": 0.557}]
        events += [{"event": "step", "step": step, "reward": step / 4, "loss": step / 100} for step in (1, 2, 3)]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))


@pytest.mark.slow
@pytest.mark.usefixtures("there")
def test_the_page_shows_what_its_code_gives() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed, and the page shows a frame")
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert failed == 0
    assert tried > 10
