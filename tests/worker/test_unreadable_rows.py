"""A data file that cannot be read is told with the line that is to blame."""

from pathlib import Path

import pytest
from worker_runs import planned_data

from grpo_recipes.contract.plan import Data
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.data.unreadable_rows import unreadable

GOOD = '{"question": "1+1=", "answer": "2"}\n'
PROBLEM = ValueError("Expected object or value")


def data_of(folder: Path, text: str, kind: str = "json") -> Data:
    (folder / "rows").write_text(text, encoding="utf-8")
    return Data(**planned_data(folder / "rows", format=kind))


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        pytest.param(f'{GOOD}{GOOD}{{"question": "3+', 3, "Unterminated string", id="cut-off"),
        pytest.param(f'{GOOD}\n{{"question": "1+1=", "answer":\n{GOOD}', 3, "column 31", id="behind-a-blank"),
        pytest.param(f"{GOOD}[1, 2]\n", 2, "it is not a mapping but list", id="no-mapping"),
        pytest.param(f"{GOOD}{'[' * 100_000}\n", 2, "recursion", id="too-deep"),
        pytest.param(f"{GOOD}{{'question': '1+1='}}\n", 2, "double quotes", id="single-quotes"),
    ],
)
def test_a_broken_row_is_told_with_its_line(text: str, line: int, said: str, tmp_path: Path) -> None:
    told = str(unreadable(PROBLEM, data_of(tmp_path, text), "dataset"))
    assert told.startswith(f"dataset: {tmp_path / 'rows'}:{line}: the line is not JSON\n  = because: ")
    assert said in told
    assert told.count("\n") == 2
    assert max(map(len, told.splitlines())) < 400


def test_another_reason_is_that_of_the_first_cause(tmp_path: Path) -> None:
    outer = RuntimeError("An error occurred while generating the dataset")
    outer.__cause__ = PROBLEM
    told = str(unreadable(outer, data_of(tmp_path, GOOD), "evaluation"))
    assert told.splitlines()[:2] == [
        f"evaluation: {tmp_path / 'rows'} cannot be read as json",
        "  = because: ValueError: Expected object or value",
    ]


@pytest.mark.parametrize("text", ["", GOOD, f"[{GOOD}]"], ids=["empty", "a-row", "a-list"])
def test_a_disk_that_fails_is_not_blamed_on_the_file(text: str, tmp_path: Path) -> None:
    outer = RuntimeError("while generating")
    outer.__context__ = OSError(28, "No space left on device")
    assert unreadable(outer, data_of(tmp_path, text), "dataset") is None


@pytest.mark.stack
@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        pytest.param("json", f'{GOOD}{{"question": "1+1=", \n{GOOD}', "rows:2: the line is not JSON", id="json"),
        pytest.param("csv", "a,b\n1,2\n3,4,5,6\n", "cannot be read as csv", id="csv"),
        pytest.param("parquet", "no parquet at all", "cannot be read as parquet", id="parquet"),
    ],
)
def test_what_the_real_library_cannot_read_stops_the_run(kind: str, text: str, said: str, tmp_path: Path) -> None:
    from grpo_recipes.worker.data.dataset import prepare_rows

    with pytest.raises(Refused, match=said):
        prepare_rows(data_of(tmp_path, text, kind), "dataset", tmp_path / "cache", 0)
