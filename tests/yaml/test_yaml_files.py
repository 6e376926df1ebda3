"""Files that are no recipe: one finding each, nothing is read without bound."""

import os
from pathlib import Path

import pytest
from support.work import takes_at_most

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.yaml import ids
from grpo_recipes.yaml.load import load_file


def refused(path: object) -> Finding:
    with takes_at_most(1):
        document, findings = load_file(str(path))
    assert document is None
    assert len(findings) == 1
    assert findings[0].fix
    return findings[0]


def test_file_of_256_kib_with_byte_order_mark_is_read(tmp_path: Path) -> None:
    head = b"\xef\xbb\xbfa: 1\n#"
    (tmp_path / "r.yaml").write_bytes(head + b"x" * (256 * 1024 - len(head)))
    document, findings = load_file(str(tmp_path / "r.yaml"))
    assert findings == []
    assert document is not None
    assert document.values == {"a": 1}
    assert document.file == str(tmp_path / "r.yaml")


def test_larger_file_is_refused_unread(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_bytes(b"a: 1\n" * (2 << 20))
    finding = refused(tmp_path / "r.yaml")
    assert finding.rule == ids.TOO_LARGE
    assert "256 KiB" in finding.message


def test_missing_file_names_the_nearest_with_its_whole_path(tmp_path: Path) -> None:
    folder = tmp_path / "a_long_name" / ("of_a_folder_" * 10)
    folder.mkdir(parents=True)
    (folder / "qwen2_lora.yaml").write_text("a: 1")
    finding = refused(folder / "qwen2_lora.yml")
    assert finding.rule == ids.UNREADABLE
    assert finding.message == f"{folder / 'qwen2_lora.yml'} does not exist"
    assert finding.fix == str(folder / "qwen2_lora.yaml")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", "does not exist"),
        ("no/such/folder/r.yaml", "does not exist"),
        ("a\0b", "cannot be read"),
        ("x" * 5000, "cannot be read"),
        ("\x1b[31m.yaml", "\\x1b[31m.yaml does not exist"),
        ("/dev/zero", "cannot be read"),
        ("/dev/null", "cannot be read"),
    ],
)
def test_path_that_is_no_recipe_is_refused(path: str, words: str) -> None:
    finding = refused(path)
    assert finding.rule == ids.UNREADABLE
    assert words in finding.message
    assert finding.message.isprintable()
    assert len(finding.message) < 700


def test_directory_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path).because == ("it is a folder",)


def test_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "a pipe" in refused(tmp_path / "pipe").because[0]


def test_circular_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").symlink_to(tmp_path / "r.yaml")
    assert refused(tmp_path / "r.yaml").rule == ids.UNREADABLE


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_file_without_permission_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("a: 1")
    (tmp_path / "r.yaml").chmod(0)
    assert "cannot be read" in refused(tmp_path / "r.yaml").message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0", "0x89"),
        (bytes(range(256)) * 100, "0x80"),
        ("a: 1".encode("utf-16"), "0xff"),
        (b"a: 1\nb: caf\xe9\n", "0xe9"),
        (b"a: \x1b[31m", "U+001B"),
    ],
    ids=["image", "all bytes", "utf-16", "latin-1", "escape"],
)
def test_content_that_is_not_utf8_text_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "r.yaml").write_bytes(content)
    finding = refused(tmp_path / "r.yaml")
    assert finding.rule == ids.NOT_TEXT
    assert words in finding.message


def test_wrong_byte_is_shown_at_its_place(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_bytes(b"a: 1\nb: caf\xe9 x\n")
    mark = refused(tmp_path / "r.yaml").mark
    assert mark is not None
    assert (mark.line, mark.column, mark.end_column) == (2, 7, 8)
