"""examples/first_run.ipynb: its code runs from the first cell to the last, in an empty folder, with fewer steps."""

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = json.loads((Path(__file__).parents[2] / "examples" / "first_run.ipynb").read_text(encoding="utf-8"))


def test_no_output_is_kept_in_the_file() -> None:
    assert [cell["id"] for cell in NOTEBOOK["cells"] if cell.get("outputs") or cell.get("execution_count")] == []


@pytest.mark.stack
def test_its_cells_run_one_after_the_other(
    tmp_path: Path, warm_python: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{warm_python}:/usr/bin:/bin")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    names: dict[str, Any] = {}
    given = '{"training.max_steps": 20, "evaluation.max_rows": 200}'
    cells = {cell["id"]: "".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"}
    assert [name for name, source in cells.items() if given in source] == ["recipe", "run"]
    for name, source in cells.items():
        exec(compile(source.replace(given, given.replace("20", "4", 1).replace("200", "8")), name, "exec"), names)
    answer = capsys.readouterr().out
    assert "GRPOConfig.max_steps  4" in answer
    assert "notebook  completed" in answer
    assert list(names["steps"]["step"])[-1] == 4
    assert (tmp_path / "notebook-report.html").exists()
