"""One reader and writer for a folder's files: no links, regular files, bounded."""

import errno
import os
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.work import takes_at_most

from grpo_recipes.contract.files import folder_files
from grpo_recipes.contract.files.bounded_json import parse_json, read_json
from grpo_recipes.contract.files.regular_file import NotRegular

SECRET = b"what lies outside"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file of its own, and beside it `outside` with a file and a folder that nobody may touch."""
    (tmp_path / "outside" / "folder").mkdir(parents=True)
    (tmp_path / "outside" / "file").write_bytes(SECRET)
    (tmp_path / "outside" / "folder" / "file").write_bytes(SECRET)
    (tmp_path / "run" / "in").mkdir(parents=True)
    (tmp_path / "run" / "own").write_bytes(b"own")
    return tmp_path / "run"


def is_untouched(folder: Path) -> bool:
    """Whether all that lies outside is as it was."""
    outside = folder.parent / "outside"
    found = sorted(str(path.relative_to(outside)) for path in outside.rglob("*"))
    contents = [(outside / name).read_bytes() for name in ("file", "folder/file")]
    return found == ["file", "folder", "folder/file"] and contents == [SECRET, SECRET]


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(path.parent)  # the name of a socket is short
        server.bind(path.name)
        os.chdir(here)


# What lies where a file is needed -> how it is made, and what is said of it.
NO_FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a link to a file outside": (lambda path: path.symlink_to("../outside/file"), "it is a link"),
    "a link to a folder outside": (lambda path: path.symlink_to("../outside/folder"), "it is a link"),
    "a link to nothing": (lambda path: path.symlink_to("../outside/new"), "it is a link"),
    "a link to itself": (lambda path: path.symlink_to(path.name), "it is a link"),
    "a link to a file inside": (lambda path: path.symlink_to("own"), "it is a link"),
    "a link to zeros": (lambda path: path.symlink_to("/dev/zero"), "it is a link"),
    "a link to standard input": (lambda path: path.symlink_to("/dev/stdin"), "it is a link"),
    "a link into /proc": (lambda path: path.symlink_to("/proc/self/mem"), "it is a link"),
    "a pipe": (lambda path: os.mkfifo(path), "it is a device, a pipe or a socket, which may never end"),
    "a socket": (a_socket, "it is a device, a pipe or a socket, which may never end"),
    "a folder": (lambda path: path.mkdir(), "it is a folder"),
}
READERS: dict[str, Callable[[Path, str], object]] = {
    "open_to_read": folder_files.open_to_read,
    "read_bytes": folder_files.read_bytes,
    "read_text": folder_files.read_text,
    "read_json": read_json,
    "open_to_append": folder_files.open_to_append,
    "open_in_place": lambda folder, name: folder_files.open_in_place(folder, name, make=True),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("what", NO_FILES)
def test_only_a_regular_file_is_opened(what: str, reader: str, folder: Path) -> None:
    make, said = NO_FILES[what]
    make(folder / "x")
    with takes_at_most(5):
        with pytest.raises(NotRegular) as refused:
            READERS[reader](folder, "x")
        assert str(refused.value) == f"{folder}/x: {said}"
    assert is_untouched(folder)


@pytest.mark.parametrize("what", NO_FILES)
def test_writing_whole_leaves_what_a_link_names_as_it_was(what: str, folder: Path) -> None:
    NO_FILES[what][0](folder / "x")
    before = sorted(path.name for path in folder.iterdir())
    if "link" in what:
        folder_files.write_whole(folder, "x", "new")
        assert (folder / "x").lstat().st_size == 3
        assert stat.S_ISREG((folder / "x").lstat().st_mode)
    else:
        with pytest.raises(NotRegular):
            folder_files.write_whole(folder, "x", "new")
    assert sorted(path.name for path in folder.iterdir()) == before
    assert is_untouched(folder)


WAYS_IN: dict[str, Callable[[Path, str], object]] = {
    **READERS,
    "write_whole": lambda folder, name: folder_files.write_whole(folder, name, "new"),
    "make_folder": lambda folder, name: folder_files.make_folder(folder, f"{name}/new"),
    "remove": folder_files.remove,
    "remove_tree": folder_files.remove_tree,
    "rename": lambda folder, name: folder_files.rename(folder, name, "own"),
    "rename to": lambda folder, name: folder_files.rename(folder, "own", name),
    "status": folder_files.status,
    "names": folder_files.names,
    "walk": lambda folder, name: list(folder_files.walk(folder, name)),
}


@pytest.mark.parametrize("way", WAYS_IN)
@pytest.mark.parametrize(
    ("link", "name"),
    [
        ("../outside", "x/file"),
        ("../outside", "x/folder/file"),
        ("../outside/folder", "x/file"),
        ("in", "x/file"),
        ("/", "x/etc/passwd"),
    ],
)
def test_no_link_is_on_the_way(link: str, name: str, way: str, folder: Path) -> None:
    (folder / "x").symlink_to(link)
    with pytest.raises(NotRegular, match="it is a link"):
        WAYS_IN[way](folder, name)
    assert is_untouched(folder)


@pytest.mark.parametrize("way", WAYS_IN)
@pytest.mark.parametrize("name", ["../outside/file", "in/../../outside/file", "/etc/passwd", "in//file", "..", "a\0b"])
def test_no_name_leads_out(name: str, way: str, folder: Path) -> None:
    with pytest.raises(NotRegular, match="the name leads out of its folder"):
        WAYS_IN[way](folder, name)
    assert is_untouched(folder)


@pytest.mark.parametrize("way", ["remove", "remove_tree"])
@pytest.mark.parametrize("what", [what for what in NO_FILES if "link" in what])
def test_a_link_is_removed_and_not_what_it_names(what: str, way: str, folder: Path) -> None:
    NO_FILES[what][0](folder / "x")
    WAYS_IN[way](folder, "x")
    assert not os.path.lexists(folder / "x")
    assert is_untouched(folder)
    assert (folder / "own").read_bytes() == b"own"


def test_a_tree_is_removed_without_what_its_links_name(folder: Path) -> None:
    (folder / "in" / "deep" / "er").mkdir(parents=True)
    for place in ("in", "in/deep", "in/deep/er"):
        (folder / place / "file").symlink_to(folder.parent / "outside" / "file")
        (folder / place / "folder").symlink_to(folder.parent / "outside" / "folder")
    folder_files.remove_tree(folder, "in")
    folder_files.remove_tree(folder, "in")
    assert [path.name for path in folder.iterdir()] == ["own"]
    assert is_untouched(folder)


def test_the_canary_of_these_tests_dies_of_the_ordinary_ways(folder: Path) -> None:
    (folder / "x").symlink_to("../outside/file")
    (folder / "x").write_text("harm")
    assert not is_untouched(folder)


def test_the_folder_itself_may_be_reached_through_links(folder: Path) -> None:
    (folder.parent / "link").symlink_to(folder)
    folder_files.write_whole(folder.parent / "link", "own", "new")
    assert folder_files.read_text(folder.parent / "link", "own") == "new"
    assert not (folder / "own").is_symlink()


def test_what_is_written_is_read(folder: Path) -> None:
    folder_files.make_folder(folder, "a/b")
    folder_files.make_folder(folder, "a/b")
    folder_files.write_whole(folder, "a/b/c", iter([b"1", b"2"]), 0o600)
    assert (folder_files.read_bytes(folder, "a/b/c"), (folder / "a/b/c").stat().st_mode & 0o777) == (b"12", 0o600)
    descriptor = folder_files.open_to_append(folder, "a/b/c")
    os.write(descriptor, b"3")
    os.close(descriptor)
    assert folder_files.read_text(folder, "a/b/c") == "123"
    folder_files.rename(folder, "a/b/c", "a/d")
    assert folder_files.names(folder, "a") == ["b", "d"]
    assert [name for name, _ in folder_files.walk(folder)] == ["a", "in", "own", "a/b", "a/d"]
    assert folder_files.is_file(folder, "a/d")
    assert not folder_files.is_file(folder, "a")
    assert folder_files.status(folder, "a/none") is None
    assert folder_files.names(folder, "none") == []


def test_new_content_is_on_disk_before_it_replaces_the_old(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a loss of power would show the difference."""
    done: list[tuple[str, bytes]] = []
    flush, replace = os.fsync, os.replace

    def watched_flush(descriptor: int) -> None:
        flush(descriptor)
        done.append(("flushed", Path(f"/proc/self/fd/{descriptor}").read_bytes()))

    def watched_replace(old: str, new: str) -> None:
        done.append(("replaces", Path(old).read_bytes()))
        replace(old, new)

    monkeypatch.setattr(os, "fsync", watched_flush)
    monkeypatch.setattr(os, "replace", watched_replace)
    folder_files.write_whole(folder, "own", iter([b"n", b"ew"]))
    assert done == [("flushed", b"new"), ("replaces", b"new")]


def test_a_file_with_a_second_name_is_not_appended_to(folder: Path) -> None:
    os.link(folder / "own", folder / "same")
    with pytest.raises(NotRegular, match="it has a second name, as in a copy made with cp -l"):
        folder_files.open_to_append(folder, "own")


def test_nothing_larger_than_said_is_read(folder: Path) -> None:
    with (folder / "holes").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(NotRegular, match="it is larger than 64 MiB"):
        folder_files.read_bytes(folder, "holes")
    with pytest.raises(NotRegular, match="it is larger than 2 bytes"):
        folder_files.read_bytes(folder, "own", 2)
    assert folder_files.read_bytes(folder, "own", 3) == b"own"


def test_nothing_deeper_or_with_more_files_is_walked(folder: Path) -> None:
    folder_files.make_folder(folder, "/".join("d" * 70))
    with pytest.raises(NotRegular, match="it holds folders more than 64 deep"):
        list(folder_files.walk(folder))
    for number in range(10):
        (folder / "in" / str(number)).touch()
    with pytest.raises(NotRegular, match="it holds more files than a run has"):
        list(folder_files.walk(folder, "in", most=9))
    assert len(list(folder_files.walk(folder, "in", most=10))) == 10


def test_a_missing_file_is_missing(folder: Path) -> None:
    for name in ("none", "none/none"):
        with pytest.raises(FileNotFoundError) as missing:
            folder_files.read_bytes(folder, name)
        assert (missing.value.errno, missing.value.filename) == (errno.ENOENT, str(folder / name))
    folder_files.remove(folder, "none")
    folder_files.remove_tree(folder, "none/none")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", {}),
        ("[" * 64 + "]" * 64, None),
        ('{"' + "[{" * 500 + '": 1}', {"[{" * 500: 1}),
        ('"\\"[[["', '"[[['),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        ("9" * 100, int("9" * 100)),
        ("NaN", None),
    ],
    ids=["empty", "as deep as may be", "brackets in a text", "a quote in a text", "a pair", "100 digits", "NaN"],
)
def test_json_that_can_be_worked_with_is_read(text: str, value: object) -> None:
    found = parse_json(text.encode())
    assert value is None or found == value


@pytest.mark.parametrize(
    "text",
    [
        "[" * 65 + "]" * 65,
        "[" * 2_000_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        "[]" * 10 + "[" * 1_000_000,
        "9" * 101,
        "-" + "9" * 1_000_000,
        '"\\ud800"',
        '{"\\uDC00": 1}',
        '"' + "\\" * 1_000_001 + "[" * 65,
        '"\\' * 600_000 + "[" * 65,
        "",
        "\ufeff{}",
    ],
    ids=lambda text: f"{text[:8]} of {len(text)}",
)
@pytest.mark.slow
def test_other_json_is_refused_in_linear_time(text: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError):
        parse_json(text.encode())
    assert time.process_time() - began < 60
