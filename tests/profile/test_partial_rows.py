"""The file of a profile that is not whole yet loses nothing that is whole, and is nobody else's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.profile import partial_rows as module
from grpo_recipes.worker.profile.partial_rows import NotWritten, partial_rows, with_digest

ASKED = "0123456789ab"


def line(place: int, asked: str = ASKED) -> bytes:
    row = {"place": place, "when": "\u00e9", "pass_rate": 0.1 + 0.2, "profile": {"asked": asked}}
    return json.dumps(with_digest(row, place), ensure_ascii=False).encode() + b"\n"


def kept(path: Path, content: bytes, *, count: int = 10) -> int:
    """How many rows are kept, of which two are answered together; the file has just these then."""
    path.write_bytes(content)
    with partial_rows(str(path), str(path.with_name("rows.jsonl"))) as partial:
        partial.resume(ASKED, 2, count)
        rows = len(partial.rows)
        partial.add([{"place": rows}], line(rows))
    assert path.read_bytes() == b"".join(map(line, range(rows + 1)))
    return rows


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        pytest.param(b"", 0, id="nothing"),
        pytest.param(b"".join(map(line, range(4))), 4, id="two blocks"),
        pytest.param(b"".join(map(line, range(5))), 4, id="half a block"),
        pytest.param(b"".join(map(line, range(4))) + line(4)[:-3], 4, id="half a row"),
        pytest.param(line(0)[:-3], 0, id="half of the first row"),
        pytest.param(b"".join(map(line, range(3))) + b"\0\0\0\n" + line(4), 2, id="a damaged row in the middle"),
    ],
)
def test_whole_blocks_are_kept(content: bytes, rows: int, tmp_path: Path) -> None:
    assert kept(tmp_path / "rows.partial.jsonl", content) == rows


def test_a_last_block_that_is_short_is_whole(tmp_path: Path) -> None:
    assert kept(tmp_path / "rows.partial.jsonl", b"".join(map(line, range(5))), count=5) == 5


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(line(0) + line(1, "other"), id="another profile"),
        pytest.param(b'{"question": "1+1="}\n', id="rows of the user"),
        pytest.param(b"a text of the user\n", id="no rows"),
        pytest.param(b'{"profile": "of the user"}\n', id="the user's own column"),
        pytest.param(b"".join(map(line, range(12))), id="more rows than there are"),
    ],
)
def test_a_different_file_is_left_alone(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "rows.partial.jsonl"
    with pytest.raises(Refused, match="rows of a different profile"):
        kept(path, content)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("content", "row"),
    [
        pytest.param(line(0) + line(1).replace(b"0.3", b"0.4"), 2, id="a different pass rate"),
        pytest.param(line(0).replace(b'"place": 0', b'"place": 7') + line(1), 1, id="a different question"),
        pytest.param(line(0) + line(2) + line(1), 2, id="two rows swapped"),
        pytest.param(line(0) + line(0) + line(1), 2, id="a row doubled"),
        pytest.param(line(0) + line(2), 2, id="a row lost"),
        pytest.param(b'{"place": 0, "profile": {"asked": "%s"}}\n' % ASKED.encode(), 1, id="no digest"),
    ],
)
def test_a_changed_row_is_refused(content: bytes, row: int, tmp_path: Path) -> None:
    path = tmp_path / "rows.partial.jsonl"
    with pytest.raises(Refused, match=f"row {row} changed after it was written"):
        kept(path, content)
    assert path.read_bytes() == content


def test_what_has_the_name_of_the_output_stays(tmp_path: Path) -> None:
    path, output = tmp_path / "rows.partial.jsonl", tmp_path / "rows.jsonl"
    with pytest.raises(Refused, match="already exists"), partial_rows(str(path), str(output)) as partial:
        partial.resume(ASKED, 2, 1)
        partial.add([{}], line(0))
        output.write_text("mine")
        partial.finish()
    assert output.read_text() == "mine"
    assert path.read_bytes() == line(0)


def test_a_link_and_a_folder_are_not_written_to(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine")
    (tmp_path / "rows.partial.jsonl").symlink_to(mine)
    for name in ("rows.partial.jsonl", "none/rows.partial.jsonl"):
        output = str(tmp_path / "rows.jsonl")
        with pytest.raises(NotWritten, match="cannot be written"), partial_rows(str(tmp_path / name), output):
            pass
    assert mine.read_text() == "mine"


@pytest.mark.processes
def test_two_profiles_do_not_write_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST_WAIT_S", 0.5)
    path, output = str(tmp_path / "rows.partial.jsonl"), str(tmp_path / "rows.jsonl")
    first = (
        "import sys\nfrom grpo_recipes.worker.profile.partial_rows import partial_rows\n"
        f"with partial_rows({path!r}, {output!r}) as partial:\n"
        f"    partial.resume({ASKED!r}, 1, 1)\n    print('has it', flush=True)\n    sys.stdin.readline()\n"
        f"    partial.add([{{}}], {line(0)!r})\n    partial.finish()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", first], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "has it\n"
        with pytest.raises(Refused, match="is in use"), partial_rows(path, output):
            pass
        process.stdin.write("go on\n")
    assert process.returncode == 0
    assert Path(output).read_bytes() == line(0)
    with pytest.raises(Refused, match="already exists"), partial_rows(path, output):
        pass
