"""The key is this user's alone, or it is not used."""

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo_recipes.contract.integrity.seal import NoKey, allowed_digests, user_key

Harm = Callable[[Path], object]


def test_it_is_made_once_and_can_be_read_by_its_owner_alone(home: Path) -> None:
    with pytest.raises(NoKey, match="does not exist"):
        user_key(make=False)
    key = user_key(make=True)
    assert user_key(make=True) == user_key(make=False) == key
    assert stat.S_IMODE((home / "key").stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert [path.name for path in home.iterdir()] == ["key"]
    assert key.secret.hex() not in key.id


def test_of_many_that_make_it_at_once_all_get_the_same_one() -> None:
    found: list[str] = []
    ready = threading.Barrier(16)

    def make() -> None:
        ready.wait()
        found.append(user_key(make=True).id)

    threads = [threading.Thread(target=make) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert set(found) == {user_key(make=False).id}


def linked(key: Path) -> None:
    key.rename(key.with_name("elsewhere"))
    key.symlink_to("elsewhere")


def piped(key: Path) -> None:
    key.unlink()
    os.mkfifo(key, 0o600)


def foldered(key: Path) -> None:
    key.unlink()
    key.mkdir(0o700)


HARMS: dict[str, Harm] = {
    "read by the group": lambda key: key.chmod(0o640),
    "read by all": lambda key: key.chmod(0o604),
    "written by all": lambda key: key.chmod(0o602),
    "a link": linked,
    "a link to nothing": lambda key: (key.unlink(), key.symlink_to("nothing")),
    "a pipe": piped,
    "a folder": foldered,
    "empty": lambda key: key.write_bytes(b""),
    "too short": lambda key: key.write_bytes(b"00\n"),
    "too long": lambda key: key.write_bytes(key.read_bytes() * 2),
    "no end of line": lambda key: key.write_bytes(key.read_bytes().strip()),
    "upper case": lambda key: key.write_bytes(key.read_bytes().upper().replace(b"0", b"A")),
    "no hexadecimal": lambda key: key.write_bytes(b"g" * 64 + b"\n"),
    "a folder that everybody writes": lambda key: key.parent.chmod(0o777),
}


@pytest.mark.parametrize("harm", HARMS)
def test_one_that_may_be_somebody_elses_is_not_used_and_not_replaced(home: Path, harm: str) -> None:
    user_key(make=True)
    HARMS[harm](home / "key")
    before = os.lstat(home / "key")
    with pytest.raises(NoKey):
        user_key(make=True)
    after = os.lstat(home / "key")
    assert (after.st_ino, after.st_mode, after.st_size) == (before.st_ino, before.st_mode, before.st_size)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("owned", ["key", "."])
def test_one_of_another_user_is_not_used(home: Path, owned: str) -> None:
    user_key(make=True)
    os.chown(home / owned, 12345, 12345)
    with pytest.raises(NoKey, match="another user"):
        user_key(make=True)


@pytest.mark.parametrize(
    ("config", "home_folder", "because"),
    [(None, "relative", "not an absolute path"), ("relative", "relative", "not an absolute path")],
    ids=["HOME", "both"],
)
def test_no_place_for_a_key_is_said(
    config: str | None, home_folder: str, because: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    if config is not None:
        monkeypatch.setenv("XDG_CONFIG_HOME", config)
    monkeypatch.setenv("HOME", home_folder)
    with pytest.raises(NoKey, match=because):
        user_key(make=True)


def test_a_place_that_is_a_file_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    with pytest.raises(NoKey, match="cannot be"):
        user_key(make=True)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"allowed": 1}', '{"allowed": [1, null, "short"]}', "[" * 100_000, "\xff"],
    ids=["empty", "list", "half", "number", "no digests", "deep", "no UTF-8"],
)
def test_a_list_of_allowed_code_that_cannot_be_read_allows_nothing(home: Path, text: str) -> None:
    home.mkdir()
    (home / "allowed.json").write_text(text, encoding="latin-1")
    assert allowed_digests() == frozenset()


def test_what_is_allowed_is_found(home: Path) -> None:
    home.mkdir()
    (home / "allowed.json").write_text('{"allowed": ["%s"]}' % ("a" * 64))
    assert allowed_digests() == {"a" * 64}
