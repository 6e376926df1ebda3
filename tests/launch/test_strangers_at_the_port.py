"""Whoever cannot read the secret of a meeting costs the run nothing: no wait, no end, and little memory."""

import contextlib
import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grpo_recipes.worker._shared.refused import Refused
from grpo_recipes.worker.machines.callers import Callers
from grpo_recipes.worker.machines.joining import call
from grpo_recipes.worker.machines.machine import MARK, Machine, Missing
from grpo_recipes.worker.machines.network import line_of, receive_line, send_line
from grpo_recipes.worker.machines.seal import drawn, is_sealed, read_secret, sealed, write_secret

LIMIT_S = 90
MEET = (
    "import sys; from pathlib import Path; from grpo_recipes.worker.machines.machine import Machine;"
    " from grpo_recipes.worker.machines.meeting import meet; folder, node, port = sys.argv[1:];"
    " sys.exit(meet(Machine(Path(folder), int(node), 2, '127.0.0.1', int(port)), resumed=False, patience_s=80.0))"
)
Act = Callable[[socket.socket, Path], object]


@pytest.fixture
def port() -> int:
    """A port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the meeting needs of a run folder."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "plan.json").write_text("the plan")
    return tmp_path / "run"


@pytest.fixture
def machine(folder: Path, port: int) -> Iterator[Callable[[int], "subprocess.Popen[str]"]]:
    """Starts a machine; none of them outlives the test."""
    all_of_them = []

    def start(node: int) -> "subprocess.Popen[str]":
        words = [sys.executable, "-c", MEET, str(folder), str(node), str(port)]
        all_of_them.append(subprocess.Popen(words, stderr=subprocess.PIPE, text=True))
        return all_of_them[-1]

    yield start
    for one in all_of_them:
        one.kill()
        one.communicate()


def connected(port: int) -> socket.socket:
    give_up = time.monotonic() + LIMIT_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
        except OSError:
            assert time.monotonic() < give_up, "nobody listens"
            time.sleep(0.05)


def greeting(connection: socket.socket) -> dict[str, object]:
    return receive_line(connection, LIMIT_S)


def introduced(folder: Path, **changes: object) -> dict[str, object]:
    """What machine 1 says of itself, changed."""
    return {**Machine(folder, 1, 2, "127.0.0.1", 1).introduction(), "number": drawn(), **changes}


def _seal_of(content: dict[str, object], secret: str, number: object) -> dict[str, object]:
    return sealed(content, secret, "call", str(number))


def _replayed(connection: socket.socket, folder: Path) -> None:
    """The seal for another connection."""
    first = greeting(connection)
    secret = read_secret(folder, str(first["mark"]))
    assert secret is not None
    send_line(connection, _seal_of(introduced(folder), secret, drawn()))


def _changed_under_seal(connection: socket.socket, folder: Path) -> None:
    first = greeting(connection)
    secret = read_secret(folder, str(first["mark"]))
    assert secret is not None
    said = _seal_of(introduced(folder), secret, first["number"])
    send_line(connection, {**said, "nodes": 9})


def _as_answer(connection: socket.socket, folder: Path) -> None:
    first = greeting(connection)
    secret = read_secret(folder, str(first["mark"]))
    assert secret is not None
    send_line(connection, sealed(introduced(folder), secret, "answer", str(first["number"])))


def says(line: bytes) -> Act:
    return lambda connection, folder: (greeting(connection), connection.sendall(line))


STRANGERS: dict[str, Act] = {
    "says nothing": lambda connection, folder: None,
    "says nothing after the greeting": lambda connection, folder: greeting(connection),
    "half a line": says(b'{"node": 1'),
    "a request of the web": says(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
    "a handshake of TLS": says(bytes.fromhex("1603010200010001fc0303") + bytes(200)),
    "zeros": says(bytes(100_000)),
    "a long line": says(b"[" + b"1," * 50_000),
    "a deep line": says(b"[" * 4000 + b"\n"),
    "a list": says(b"[]\n"),
    "a number of 5,000 digits": says(b"9" * 3000 + b"\n"),
    "not UTF-8": says(b"\xff\xfe\n"),
    "another plan": lambda c, folder: (greeting(c), send_line(c, introduced(folder, plan="0" * 64))),
    "another plan that says it is shared": lambda c, folder: (
        greeting(c),
        send_line(c, introduced(folder, shared=True)),
    ),
    "the number of machine 0": lambda c, folder: (greeting(c), send_line(c, introduced(folder, node=0))),
    "the right words, no seal": lambda c, folder: (greeting(c), send_line(c, introduced(folder))),
    "a seal that is no text": lambda c, folder: (greeting(c), send_line(c, introduced(folder, seal=7))),
    "a seal that is not ASCII": lambda c, folder: (greeting(c), send_line(c, introduced(folder, seal="\ud800\xe9"))),
    "a seal of another secret": lambda c, folder: send_line(
        c, _seal_of(introduced(folder), "0" * 64, greeting(c)["number"])
    ),
    "a seal that was heard before": _replayed,
    "words changed under the seal": _changed_under_seal,
    "the seal of an answer": _as_answer,
}


@pytest.fixture
def guests() -> Iterator[list[socket.socket]]:
    """Connections that stay open until the end."""
    found: list[socket.socket] = []
    yield found
    for one in found:
        one.close()


def test_all_strangers_at_once_hold_nobody_up(
    folder: Path, port: int, machine: Callable[[int], "subprocess.Popen[str]"], guests: list[socket.socket]
) -> None:
    first = machine(0)
    for act in STRANGERS.values():
        guests.append(connected(port))
        with contextlib.suppress(OSError):
            act(guests[-1], folder)
    began = time.monotonic()
    second = machine(1)
    ends = [each.communicate(timeout=LIMIT_S)[1] for each in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0), ends
    assert time.monotonic() - began < 45  # one silent caller alone would be waited for longer than this
    assert "Traceback" not in ends[0]
    assert ends[0].count("a caller from ") == 1
    assert not (folder / "run.json").exists()
    assert [path.name for path in folder.iterdir()] == ["plan.json"]


def test_hundreds_of_silent_callers_hold_nobody_up(
    folder: Path, port: int, machine: Callable[[int], "subprocess.Popen[str]"], guests: list[socket.socket]
) -> None:
    first = machine(0)
    for _ in range(400):
        guests.append(connected(port))
    held = len(os.listdir(f"/proc/{first.pid}/fd"))
    second = machine(1)
    ends = [each.communicate(timeout=LIMIT_S)[1] for each in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0), ends
    assert held < 100


def test_one_who_calls_again_and_again_holds_nobody_up(
    folder: Path, port: int, machine: Callable[[int], "subprocess.Popen[str]"]
) -> None:
    first = machine(0)
    connected(port).close()
    is_over = threading.Event()

    def flood() -> None:
        while not is_over.is_set():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as one:
                one.sendall(b"\n" * 10)

    callers = [threading.Thread(target=flood) for _ in range(4)]
    for each in callers:
        each.start()
    try:
        second = machine(1)
        ends = [each.communicate(timeout=LIMIT_S)[1] for each in (first, second)]
    finally:
        is_over.set()
        for each in callers:
            each.join()
    assert (first.returncode, second.returncode) == (0, 0), ends


@pytest.mark.parametrize("act", STRANGERS)
def test_a_stranger_is_not_heard(act: str, folder: Path) -> None:
    secret = write_secret(folder, f"{MARK}{'0' * 32}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        callers = Callers(server, {"mark": f"{MARK}{'0' * 32}", "plan": "0"}, answer_s=0.5)
        with socket.create_connection(server.getsockname(), timeout=5) as one:
            said = threading.Thread(target=lambda: _quietly(STRANGERS[act], one, folder))
            said.start()
            give_up = time.monotonic() + 2
            heard = []
            while time.monotonic() < give_up and (said.is_alive() or not heard):
                heard += list(callers.heard(0.05))
            said.join()
        callers.close()
    for caller, content in heard:
        caller.connection.close()
        assert content is None or not is_sealed(content, secret, "call", caller.number)


def _quietly(act: Act, one: socket.socket, folder: Path) -> None:
    with contextlib.suppress(OSError, ValueError):
        act(one, folder)


def test_the_right_words_are_heard(folder: Path) -> None:
    secret = write_secret(folder, f"{MARK}{'0' * 32}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        callers = Callers(server, {"mark": f"{MARK}{'0' * 32}"}, answer_s=5)
        with socket.create_connection(server.getsockname(), timeout=5) as one:
            assert list(callers.heard(1)) == []
            send_line(one, _seal_of(introduced(folder), secret, greeting(one)["number"]))
            ((caller, content),) = callers.heard(1)
            assert content is not None and is_sealed(content, secret, "call", caller.number)
            caller.connection.close()
        callers.close()


def test_the_secret_is_for_this_user_alone_and_is_not_sent(folder: Path) -> None:
    path = folder / f"{MARK}{'0' * 32}"
    secret = write_secret(folder, path.name)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_secret(folder, path.name) == secret
    assert secret not in json.dumps(_seal_of(introduced(folder), secret, "1"))


def test_no_secret_is_read_from_what_is_none(tmp_path: Path) -> None:
    write_secret(tmp_path, "real")
    (tmp_path / "link").symlink_to("real")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "short").write_text("abc")
    (tmp_path / "long").write_text("0" * 65)
    for name in ("link", "pipe", "short", "long", "none", "."):
        assert read_secret(tmp_path, name) is None


# Who answers in the place of machine 0 cannot make another machine go on, nor read where it points to.
IMPOSTORS: dict[str, tuple[bytes, type[Exception], str]] = {
    "no line": (b"\x00" * 70_000, Missing, "not machine 0"),
    "a list": (b"[]\n", Missing, "not machine 0"),
    "a path above": (line_of({"plan": "PLAN", "mark": "../plan.json", "number": "1"}), Refused, "does not see"),
    "a path": (line_of({"plan": "PLAN", "mark": "/etc/passwd", "number": "1"}), Refused, "does not see"),
    "another name": (line_of({"plan": "PLAN", "mark": "plan.json", "number": "1"}), Refused, "does not see"),
    "no plan": (line_of({"mark": f"{MARK}{'0' * 32}"}), Refused, "has another plan.json"),
    "a plan that is a list": (line_of({"plan": [], "mark": 7}), Refused, "has another plan.json"),
}


@pytest.mark.parametrize("impostor", IMPOSTORS)
def test_an_impostor_is_no_machine_0(impostor: str, folder: Path) -> None:
    line, kind, words = IMPOSTORS[impostor]
    plan = str(Machine(folder, 1, 2, "127.0.0.1", 1).introduction()["plan"])
    with socket.create_server(("127.0.0.1", 0)) as server:
        answering = threading.Thread(
            target=_answering, args=(server, line.replace(b"PLAN", plan.encode())), daemon=True
        )
        answering.start()
        machine = Machine(folder, 1, 2, "127.0.0.1", server.getsockname()[1])
        with pytest.raises(kind, match=words):
            call(machine, time.monotonic() + 1)
        answering.join(5)


def test_words_without_a_seal_let_no_machine_go_on(folder: Path) -> None:
    mark = f"{MARK}{'0' * 32}"
    write_secret(folder, mark)
    machine = Machine(folder, 1, 2, "127.0.0.1", 1)
    first = line_of({"plan": machine.introduction()["plan"], "mark": mark, "number": "1"})
    for word in ({"go": True}, {"welcome": True}, {"wrong": "rm -rf /", "missing": False}):
        with socket.create_server(("127.0.0.1", 0)) as server:
            lines = first + line_of(word) + line_of({"go": True})
            threading.Thread(target=_answering, args=(server, lines), daemon=True).start()
            here = Machine(folder, 1, 2, "127.0.0.1", server.getsockname()[1])
            with pytest.raises(Missing, match=r"not sealed|takes no call|left"):
                call(here, time.monotonic() + 1)


def _answering(server: socket.socket, lines: bytes) -> None:
    with contextlib.suppress(OSError):
        connection = server.accept()[0]
        with connection:
            for line in lines.splitlines(keepends=True):
                connection.sendall(line)
                time.sleep(0.1)
            connection.settimeout(2)
            while connection.recv(1 << 16):
                pass
