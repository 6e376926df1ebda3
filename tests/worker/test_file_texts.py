"""Prompts, columns and rewards get what a data file says: dates of JSON and padded numbers of CSV as texts."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from worker_runs import planned_data

from grpo_recipes.contract.plan import Data
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.data.dataset import load_rows, prepare_rows

ROWS: list[dict[str, Any]] = [
    {"question": f"day {day}?", "date": f"2029-09-{day:02d}", "n": day, "of": [{"at": f"2029-09-{day:02d}T01:02:03Z"}]}
    for day in range(1, 20)
]


def data_of(path: Path) -> Data:
    where = {} if path.is_file() else {"source": "folder", "format": None}
    return Data(**planned_data(path, columns={"solution": "{{ date }}"}, **where))


def read_csv(folder: Path, text: str, **changes: Any) -> list[dict[str, Any]]:
    (folder / "rows.csv").write_text(text)
    data = Data(**planned_data(folder / "rows.csv", format="csv", columns={}, **changes))
    return [dict(row) for row in load_rows(data, "dataset", folder / "cache")]


def written(folder: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / name).write_text(json.dumps(rows) if name.endswith(".json") else lines)
    return folder / name


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json"])
def test_a_date_stays_the_text_of_the_file(name: str, tmp_path: Path) -> None:
    rows = prepare_rows(data_of(written(tmp_path, name, ROWS)), "dataset", tmp_path / "cache", 0)
    assert rows["solution"][:2] == ["2029-09-01", "2029-09-02"]
    plain = rows.select_columns(["question", "date", "n", "of"])
    assert [dict(row) for row in plain] == ROWS, "and numbers stay numbers"


def test_a_folder_of_files_has_the_same_texts(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    written(tmp_path / "rows", "a.jsonl", ROWS[:10])
    written(tmp_path / "rows", "b.jsonl", [*ROWS[10:], {**ROWS[0], "date": "unknown"}])
    rows = load_rows(data_of(tmp_path / "rows"), "dataset", tmp_path / "cache")
    assert list(rows["date"]) == [*(row["date"] for row in ROWS), "unknown"]


def test_dates_in_a_part_of_a_large_file_alone_are_texts_too(tmp_path: Path) -> None:
    """datasets reads ten million bytes at a time, and asks each time what a column is."""
    many = [{**ROWS[0], "date": "unknown", "question": "x" * 1000}] * 11_000
    rows = load_rows(data_of(written(tmp_path, "rows.jsonl", [*many, *ROWS])), "dataset", tmp_path / "cache")
    assert list(rows["date"])[-19:] == [row["date"] for row in ROWS]
    back = written(tmp_path, "back.jsonl", [*[{**row, "question": "x" * 1000} for row in ROWS] * 600, *many[:9]])
    assert set(load_rows(data_of(back), "dataset", tmp_path / "cache2")["date"][-9:]) == {"unknown"}


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json"])
def test_numbers_keep_their_digits(name: str, tmp_path: Path) -> None:
    """pandas' ujson writes ten decimal places: 1e-12 became 0.0 in a file that is one list."""
    numbers = [3.141592653589793, 1e-12, 0.1 + 0.2, 5e-324]
    rows = [{"n": number, "of": {str(i): number}} for i, number in enumerate(numbers)]
    loaded = load_rows(data_of(written(tmp_path, name, rows)), "dataset", tmp_path / "cache")
    again = loaded.map(lambda row: {"more": row["n"]})
    for read in (loaded, again):
        assert [row["n"] for row in read] == numbers
        assert [next(n for n in row["of"].values() if n is not None) for row in read] == numbers


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json"])
@pytest.mark.parametrize("order", [1, -1])
def test_a_column_of_texts_and_numbers_is_text_as_written(name: str, order: int, tmp_path: Path) -> None:
    values = ["1.50", 2, "007", "true", None, "[1, 2]", 2.5, "x", True, 12345678901234567890123][::order]
    rows = [{"question": "?", "date": value, "n": 1e-12, "other": "1.0"} for value in values]
    loaded = load_rows(data_of(written(tmp_path, name, rows)), "dataset", tmp_path / "cache")
    texts = ["1.50", "2", "007", "true", None, "[1, 2]", "2.5", "x", "true", "12345678901234567890123"][::order]
    assert list(loaded["date"]) == texts
    assert set(loaded["n"]) == {1e-12} and set(loaded["other"]) == {"1.0"}


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json"])
def test_texts_and_numbers_within_lists_stay_what_they_are(name: str, tmp_path: Path) -> None:
    """Such as the inputs of code tests: datasets made the number 5 of the text "5", again at each map."""
    tests = [[{"in": "5", "out": 5}, {"in": "007", "out": "true"}], [{"in": "x", "out": "[1]"}, {"in": 3, "out": None}]]
    path = written(tmp_path, name, [{"question": "?", "tests": each} for each in tests])
    loaded = load_rows(data_of(path), "dataset", tmp_path / "cache")
    for read in (loaded, loaded.map(lambda row: {"more": 1})):
        assert [row["tests"] for row in read] == tests


def test_texts_beside_lists_are_read_as_before(tmp_path: Path) -> None:
    values = [[1, 2], "x", {"a": 1e-12}]
    rows = [{"date": value, "question": "?"} for value in values]
    loaded = load_rows(data_of(written(tmp_path, "rows.jsonl", rows)), "dataset", tmp_path / "cache")
    assert [row["date"] for row in loaded] == values


def test_an_empty_cell_of_a_csv_file_makes_no_fractions(tmp_path: Path) -> None:
    rows = read_csv(tmp_path, "question,answer,rate,none\n1+1,2,0.5,\n2+1,3,,\n9+9,,1,\n")
    assert [row["answer"] for row in rows] == [2, 3, None]
    assert [type(row["answer"]) for row in rows[:2]] == [int, int]
    assert [row["rate"] for row in rows] == [0.5, None, 1.0], "fractions stay"
    assert [row["none"] for row in rows] == [None] * 3


def test_numbers_that_begin_with_a_zero_are_texts(tmp_path: Path) -> None:
    rows = read_csv(tmp_path, 'question,code,zero,negative\n"a,\n7",007,0,-5\nb,12,0.5,-05\nc,,10,\n')
    assert [row["code"] for row in rows] == ["007", "12", None]
    assert [row["zero"] for row in rows] == [0.0, 0.5, 10.0]
    assert [row["negative"] for row in rows] == ["-5", "-05", None]


def test_a_long_number_beside_an_empty_cell_is_a_text(tmp_path: Path) -> None:
    rows = read_csv(tmp_path, "question,id\na,12345678901234567\nb,\n")
    assert [row["id"] for row in rows] == ["12345678901234567", None], "a float would end in 8"


@pytest.mark.parametrize("text", ["question,a\nx,1\ny,2,3\n", "question\n\n1\n", "question;a\nx;1\n"])
def test_what_pandas_alone_reads_or_nobody_does_is_as_before(text: str, tmp_path: Path) -> None:
    found = None
    with contextlib.suppress(Refused):
        found = read_csv(tmp_path, text, prompt="{{ x }}")
    assert found is None or len(found) >= 1
