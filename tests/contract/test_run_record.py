"""run.json as it is read: what nobody writes into it is not believed."""

import json
from pathlib import Path

import pytest

from grpo_recipes.contract.run_record import STATUSES, UNKNOWN, read_record


def status_of(folder: Path, status: object) -> str:
    (folder / "run.json").write_text(json.dumps({"run": 1, "status": status, "step": 5}))
    record = read_record(str(folder))
    assert record is not None and record.step == 5
    return record.status


@pytest.mark.parametrize("status", sorted(STATUSES))
def test_a_status_that_a_run_has_is_read(status: str, tmp_path: Path) -> None:
    assert status_of(tmp_path, status) == status


@pytest.mark.parametrize(
    "status", ["", "done", "completed\n::error::x", "::error::x", "<b>completed</b>", "\u200bfailed"]
)
def test_any_other_status_is_unknown(status: str, tmp_path: Path) -> None:
    assert status_of(tmp_path, status) == UNKNOWN


def test_a_status_that_is_no_text_is_unknown(tmp_path: Path) -> None:
    assert status_of(tmp_path, ["completed"]) == UNKNOWN


def test_a_record_without_a_status_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"run": 1}')
    record = read_record(str(tmp_path))
    assert record is not None
    assert record.status == UNKNOWN
