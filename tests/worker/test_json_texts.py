"""Dates in JSON rows reach prompts, columns and rewards as the text that they are in the file."""

import json
from pathlib import Path
from typing import Any

import pytest
from worker_runs import planned_data

from grpo_recipes.contract.plan import Data
from grpo_recipes.worker.data.dataset import loaded_rows, prepared_rows

ROWS: list[dict[str, Any]] = [
    {"question": f"day {day}?", "date": f"2029-09-{day:02d}", "n": day, "of": [{"at": f"2029-09-{day:02d}T01:02:03Z"}]}
    for day in range(1, 20)
]


def data_of(path: Path) -> Data:
    where = {} if path.is_file() else {"source": "folder", "format": None}
    return Data(**planned_data(path, columns={"solution": "{{ date }}"}, **where))


def written(folder: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / name).write_text(json.dumps(rows) if name.endswith(".json") else lines)
    return folder / name


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json"])
def test_a_date_stays_the_text_of_the_file(name: str, tmp_path: Path) -> None:
    rows = prepared_rows(data_of(written(tmp_path, name, ROWS)), "dataset", tmp_path / "cache", 0)
    assert rows["solution"][:2] == ["2029-09-01", "2029-09-02"]
    plain = rows.select_columns(["question", "date", "n", "of"])
    assert [dict(row) for row in plain] == ROWS, "and numbers stay numbers"


def test_a_folder_of_files_has_the_same_texts(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    written(tmp_path / "rows", "a.jsonl", ROWS[:10])
    written(tmp_path / "rows", "b.jsonl", [*ROWS[10:], {**ROWS[0], "date": "unknown"}])
    rows = loaded_rows(data_of(tmp_path / "rows"), "dataset", tmp_path / "cache")
    assert list(rows["date"]) == [*(row["date"] for row in ROWS), "unknown"]


def test_dates_in_a_part_of_a_large_file_alone_are_texts_too(tmp_path: Path) -> None:
    """datasets reads ten million bytes at a time, and asks each time what a column is."""
    many = [{**ROWS[0], "date": "unknown", "question": "x" * 1000}] * 11_000
    rows = loaded_rows(data_of(written(tmp_path, "rows.jsonl", [*many, *ROWS])), "dataset", tmp_path / "cache")
    assert list(rows["date"])[-19:] == [row["date"] for row in ROWS]
    back = written(tmp_path, "back.jsonl", [*[{**row, "question": "x" * 1000} for row in ROWS] * 600, *many[:9]])
    assert set(loaded_rows(data_of(back), "dataset", tmp_path / "cache2")["date"][-9:]) == {"unknown"}
