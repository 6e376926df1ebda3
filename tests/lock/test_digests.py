"""What a file or folder contains, read once and kept until it changes."""

import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from grpo_recipes.user_files import digests
from grpo_recipes.user_files.digests import KEPT_FROM_BYTES, UNSETTLED_NS, file_content, folder_content, text_content


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    digests._read_digests.cache_clear()
    return tmp_path / "cache" / "grpo-run" / "digests.json"


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A large file that nobody has written for a while."""
    path = tmp_path / "weights"
    path.write_bytes(b"w" * KEPT_FROM_BYTES)
    time.sleep(UNSETTLED_NS / 10**9 + 0.05)
    return path


@pytest.mark.parametrize(
    ("content", "rows"),
    [(b"", 0), (b"{}\n{}\n", 2), (b"{}\n{}", 2), (b"{}\r\n\r\n{}\r\n", 2), (b"\n \n{}\n", 1)],
    ids=["empty", "two", "no-end", "windows-and-blank", "blank"],
)
def test_rows_are_lines_that_are_not_blank(tmp_path: Path, content: bytes, rows: int) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    found = file_content(str(path), count_rows=True)
    assert (found.sha256, found.rows) == (hashlib.sha256(content).hexdigest(), rows)
    assert file_content(str(path)).rows is None


def test_a_large_file_is_read_once(large: Path, own_cache: Path) -> None:
    first = file_content(str(large))
    kept = json.loads(own_cache.read_text())
    own_cache.write_text(json.dumps({path: [*row[:-2], "0" * 64, None] for path, row in kept.items()}))
    digests._read_digests.cache_clear()
    assert file_content(str(large)).sha256 == "0" * 64, "what was kept is taken"
    assert file_content(str(large), count_rows=True) == digests.FileContent(first.sha256, 1), "rows were not kept"


def test_a_file_that_changed_under_its_old_time_is_read_again(large: Path) -> None:
    status, first = large.stat(), file_content(str(large))
    large.write_bytes(b"x" * KEPT_FROM_BYTES)
    os.utime(large, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (large.stat().st_mtime_ns, large.stat().st_size) == (status.st_mtime_ns, status.st_size)
    assert file_content(str(large)).sha256 != first.sha256


def test_a_file_that_was_just_written_is_not_kept(tmp_path: Path, own_cache: Path) -> None:
    (tmp_path / "weights").write_bytes(b"w" * KEPT_FROM_BYTES)
    file_content(str(tmp_path / "weights"))
    assert not own_cache.exists()


def test_a_plan_reads_a_large_folder_only_where_it_is_kept(large: Path) -> None:
    folder = large.parent / "model"
    folder.mkdir()
    large.rename(folder / "weights")
    time.sleep(UNSETTLED_NS / 10**9 + 0.05)  # renaming is a change of status
    assert folder_content(str(folder), most_bytes=1000) is None
    whole = folder_content(str(folder))
    assert whole is not None
    assert folder_content(str(folder), most_bytes=1000) == whole


def test_a_folder_is_its_names_and_contents_wherever_it_lies(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "one").write_text("1")
        (tmp_path / name / "two").write_text("2")
    a, b = (folder_content(str(tmp_path / name)) for name in "ab")
    assert a == b
    assert a is not None
    assert list(a.files) == ["deep/one", "two"]
    (tmp_path / "b" / "two").rename(tmp_path / "b" / "three")
    c = folder_content(str(tmp_path / "b"))
    assert c is not None
    assert c.sha256 != a.sha256


def test_a_broken_cache_is_no_cache(large: Path, own_cache: Path) -> None:
    own_cache.parent.mkdir(parents=True)
    for text in ("", "[]", '{"x": 1}', "{", "[" * 100_000):
        own_cache.write_text(text)
        digests._read_digests.cache_clear()
        assert file_content(str(large)).sha256 == hashlib.sha256(large.read_bytes()).hexdigest()


def test_a_text_is_the_same_with_the_line_ends_of_another_system(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\ntwo\n")
    (tmp_path / "b").write_bytes(b"one\r\ntwo\r\n")
    assert text_content(str(tmp_path / "a")).sha256 == text_content(str(tmp_path / "b")).sha256
    assert text_content(str(tmp_path / "a")).sha256 == hashlib.sha256(b"one\ntwo\n").hexdigest()
