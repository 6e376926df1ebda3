"""A program that prints without end fills no disk, and what it said first and last is in the log."""

import os
import threading
from pathlib import Path

import pytest

from grpo_recipes.contract.secrets import redacted_file
from grpo_recipes.contract.secrets.redacted_file import BYTES_PER_SECOND, Flow, RedactedFile

BURST = 1 << 20


def copied(path: Path, chunks: list[bytes], monkeypatch: pytest.MonkeyPatch, burst: int = BURST) -> bytes:
    """What the log has of what a program wrote."""
    monkeypatch.setattr(redacted_file, "Flow", lambda: Flow(lambda: 0.0, burst))
    file = RedactedFile(str(path))
    reading, writing = os.pipe()
    copying = threading.Thread(target=file.copy, args=(reading,))
    copying.start()
    for chunk in chunks:
        while chunk:
            chunk = chunk[os.write(writing, chunk) :]
    os.close(writing)
    copying.join()
    return path.read_bytes()


@pytest.mark.parametrize("line", [b"y" * 79 + b"\n", b"y" * 1000 + b"\r", b"\n"], ids=["lines", "a bar", "empty lines"])
def test_a_flood_is_left_out_but_for_its_beginning_and_end(
    line: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flood = [line * (BURST // len(line))] * 20
    found = copied(tmp_path / "log", [b"first\n", *flood, b"\nlast\n"], monkeypatch)
    assert found.startswith(b"first\n")
    assert found.endswith(b"\nlast\n")
    assert len(found) < BURST * 1.2
    assert found.count(b"bytes of output were left out here: too much was printed") == 1


def test_what_is_no_flood_is_there_to_the_last_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"".join(b"line %d\n" % number for number in range(20_000))
    assert copied(tmp_path / "log", [text], monkeypatch) == text


def test_without_a_bound_the_log_grows_with_the_flood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flood = [b"y" * 79 + b"\n"] * (3 * BURST // 80)
    assert len(copied(tmp_path / "log", flood, monkeypatch, burst=1 << 40)) > 2.9 * BURST


def test_a_secret_in_a_flood_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PASSWORD", "correct-horse-battery")
    line = b"the password is correct-horse-battery, " * 3 + b"\n"
    found = copied(tmp_path / "log", [line * 1000] * 40, monkeypatch)
    assert b"left out" in found
    assert b"correct-horse" not in found and b"horse-battery" not in found


def test_a_flow_goes_on_at_its_rate() -> None:
    now = [0.0]
    flow = Flow(lambda: now[0], BURST)
    taken = 0
    for _ in range(1000):
        now[0] += 1.0
        taken += len(flow.taken(b"y" * 999 + b"\n") + flow.note())
    assert taken == 1000 * 1000  # slower than the rate: nothing is ever left out
    for _ in range(3000):
        now[0] += 0.01
        taken += len(flow.taken(b"y" * 9_999 + b"\n"))
    assert taken < 1000 * 1000 + BURST + 30 * BYTES_PER_SECOND + 1
