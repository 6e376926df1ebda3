"""A damaged list of what a user has allowed allows nothing."""

import json
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.integrity.allowed import CODE, list_file
from grpo_recipes.trust.remembered import allow, is_allowed

pytestmark = pytest.mark.hostile

ONE = "a" * 64


@pytest.fixture(autouse=True)
def config_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config"


def _replaced(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.unlink()
        make(path)

    return change


CHANGES: dict[str, Callable[[Path], object]] = {
    "a pipe": _replaced(os.mkfifo),
    "a device": _replaced(lambda path: path.symlink_to("/dev/zero")),
    "a folder": _replaced(lambda path: path.mkdir()),
    "no list": lambda path: path.write_text(json.dumps({"allowed": {ONE: 1}})),
    "a number": lambda path: path.write_text("1"),
    "a text": lambda path: path.write_text(json.dumps({"allowed": ONE})),
    "without end": lambda path: path.write_text("[" * 200_000),
    "cut off": lambda path: path.write_text(path.read_text()[:40]),
    "larger than any list": lambda path: path.write_text(" " * (17 << 20) + path.read_text()),
    "bytes": lambda path: path.write_bytes(b"\xff\xfe\x00"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_damaged_list_allows_nothing(change: str) -> None:
    allow([ONE])
    assert is_allowed(ONE), "before the change"
    CHANGES[change](list_file(CODE))
    with pytest.raises(Refusal, match="cannot be read"):
        is_allowed(ONE)


@pytest.mark.parametrize("entry", [[ONE], {"a": ONE}, None, 3, ONE.upper(), ONE[:12], ONE + "\n", ""])
def test_an_entry_that_is_no_digest_allows_nothing(entry: object) -> None:
    allow(["b" * 64])
    list_file(CODE).write_text(json.dumps({"allowed": [entry]}))
    assert not is_allowed(ONE)


def _allow(number: int) -> None:
    for digit in range(8):
        allow([f"{number * 8 + digit:064x}"])


def test_what_several_allow_at_once_is_all_remembered() -> None:
    with multiprocessing.get_context("fork").Pool(6) as pool:
        pool.map(_allow, range(6))
    assert all(is_allowed(f"{number:064x}") for number in range(48))


def test_a_prepared_link_at_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    allow([ONE])
    lock = list_file(CODE).with_name(".allowed.lock")
    lock.unlink(missing_ok=True)
    lock.symlink_to(tmp_path / "made")
    with pytest.raises(Refusal, match="cannot be written"):
        allow(["b" * 64])
    assert not (tmp_path / "made").exists()
