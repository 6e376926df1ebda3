"""The machines of a run meet before anything heavy is imported: each once, with one plan, in one shared folder.

torch's static rendezvous knows no such mistakes: for a machine that is missing, or that is there twice, it waits 15
minutes without a word, and a folder that is a copy is found when the last checkpoint is looked for.

Machine 0 listens, the others call it. All of them say what they have, machine 0 says what is wrong or that they go on.
"""

import contextlib
import hashlib
import os
import signal
import socket
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_recipes.folder_files import read_bytes, remove, write_whole
from grpo_recipes.folder_lock import holder
from grpo_recipes.trust.redact import hide_secrets
from grpo_recipes.worker.network import receive_line, send_line, tell_gloo
from grpo_recipes.worker.record import Record
from grpo_recipes.worker.stopped import EXIT_DONE, EXIT_INTERRUPTED, EXIT_STOPPED, Stopped

_PATIENCE_S = 600.0
_SAID_EVERY_S = 30.0
_ANSWER_S = 60.0  # to find the mark of machine 0 in a shared folder: a network file system looks again after 30
_POLL_S = 0.2


class Missing(Exception):
    """A machine did not come, or left before all were there."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine of a run. node: its number of `nodes`; address, port: of machine 0."""

    folder: Path
    node: int
    nodes: int
    address: str
    port: int

    def introduction(self) -> dict[str, Any]:
        """What it has, for machine 0 to compare."""
        plan = hashlib.sha256(read_bytes(self.folder, "plan.json")).hexdigest()
        return {"node": self.node, "nodes": self.nodes, "plan": plan, "host": socket.gethostname(), "pid": os.getpid()}


def meet(machine: Machine, *, resumed: bool, patience_s: float = _PATIENCE_S) -> int:
    """0 when all machines of the run are there; else the exit code, after it was said what is wrong.

    3 for what starting again would not mend, 75 for a machine that did not come. Machine 0 writes it into run.json.
    """
    _leave_when_asked()
    give_up = time.monotonic() + patience_s
    try:
        (_listen if machine.node == 0 else _call)(machine, give_up)
        return EXIT_DONE
    except Stopped as problem:
        return _ended(machine, "stopped", EXIT_STOPPED, problem, resumed=resumed)
    except Missing as problem:
        return _ended(machine, "interrupted", EXIT_INTERRUPTED, problem, resumed=resumed)


def _ended(machine: Machine, status: str, code: int, problem: Exception, *, resumed: bool) -> int:
    # A training that goes on there, maybe on the very port, keeps its record.
    if machine.node == 0 and holder(machine.folder) is None:
        record = Record(machine.folder, 0)
        record.start(resumed=resumed)
        record.end(status, code, str(problem))
    print(hide_secrets(f"error: {problem}"), file=sys.stderr, flush=True)
    return code


def _leave_when_asked() -> None:
    def leave(number: int, _: object) -> None:
        print(f"{signal.Signals(number).name} before the training began", file=sys.stderr, flush=True)
        os._exit(EXIT_INTERRUPTED)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, leave)


def _listen(machine: Machine, give_up: float) -> None:
    """Machine 0: waits for the others, and lets them go on or says why not."""
    mark = f".meeting.{uuid.uuid4().hex}"
    write_whole(machine.folder, mark, b"")
    others: dict[int, tuple[dict[str, Any], socket.socket]] = {}
    try:
        with _listening(machine) as server:
            try:
                _gather(machine, server, mark, others, give_up)
            except (Stopped, Missing) as problem:
                _tell(others, {"wrong": str(problem), "missing": isinstance(problem, Missing)})
                raise
            _tell(others, {"go": True})
            tell_gloo(next(iter(others.values()))[1])
    finally:
        for _, connection in others.values():
            connection.close()
        with contextlib.suppress(OSError):
            remove(machine.folder, mark)


def _gather(
    machine: Machine,
    server: socket.socket,
    mark: str,
    others: dict[int, tuple[dict[str, Any], socket.socket]],
    give_up: float,
) -> None:
    own = machine.introduction()
    next_word = time.monotonic() + _SAID_EVERY_S
    while len(others) < machine.nodes - 1:
        if time.monotonic() > give_up:
            raise Missing(_missing(machine, others))
        if time.monotonic() > next_word:
            next_word += _SAID_EVERY_S
            print(f"waiting for {_absent(machine, others)}", file=sys.stderr, flush=True)
        for node in [node for node, (_, connection) in others.items() if _has_left(connection)]:
            others.pop(node)[1].close()
        try:
            connection = server.accept()[0]
        except TimeoutError:
            continue
        said = _introduced(connection, {"mark": mark, "plan": own["plan"]})
        if said is None:
            connection.close()  # a stranger, or one that left
            continue
        problem = _wrong(own, said, others)
        if problem is not None:
            send_line(connection, {"wrong": problem})
            connection.close()
            raise Stopped(problem)
        others[said["node"]] = (said, connection)


def _introduced(connection: socket.socket, first: dict[str, Any]) -> dict[str, Any] | None:
    """What a machine says of itself, after it looked for the mark in its folder; None for a stranger."""
    connection.settimeout(_ANSWER_S)
    try:
        send_line(connection, first)
        said = receive_line(connection)
    except (OSError, ValueError):
        return None
    return said if isinstance(said.get("node"), int) else None


def _wrong(
    own: dict[str, Any], said: dict[str, Any], others: dict[int, tuple[dict[str, Any], socket.socket]]
) -> str | None:
    """What is wrong with a machine that called, None when it is the right one."""
    who = f"machine {said['node']} ({said.get('host')})"
    if said.get("plan") != own["plan"] or said.get("nodes") != own["nodes"]:
        return (
            f"{who} has another plan.json than machine 0 ({own['host']})\n"
            f"  = because: its run folder is another one\n  = fix: start all machines from one folder that they share"
        )
    if not said.get("shared"):
        return (
            f"{who} does not see the run folder of machine 0 ({own['host']})\n"
            f"  = because: a file that machine 0 wrote there is not in its folder, which is a copy\n"
            f"  = fix: a run folder on a disk that all machines share"
        )
    twice = own if said["node"] == 0 else others[said["node"]][0] if said["node"] in others else None
    if twice is not None:
        return (
            f"machine {said['node']} of {own['nodes']} was started twice\n"
            f"  = because: process {twice['pid']} on {twice['host']}, process {said['pid']} on {said['host']}\n"
            f"  = fix: launch.sh --node 0 on the first machine, --node 1 on the next, each number once"
        )
    return None


def _absent(machine: Machine, others: dict[int, tuple[dict[str, Any], socket.socket]]) -> str:
    absent = [str(node) for node in range(1, machine.nodes) if node not in others]
    shown = ", ".join(absent[:8]) + (", ..." if len(absent) > 8 else "")
    return f"machine{'' if len(absent) == 1 else 's'} {shown} of {machine.nodes} at {machine.address}:{machine.port}"


def _missing(machine: Machine, others: dict[int, tuple[dict[str, Any], socket.socket]]) -> str:
    return (
        f"no call from {_absent(machine, others)}\n"
        f"  = because: it was not started, or cannot reach that address\n"
        f"  = fix: launch.sh on each machine, with the address of machine 0 as the others reach it"
    )


def _call(machine: Machine, give_up: float) -> None:
    """Another machine: calls machine 0 until it answers, and waits for its word."""
    where = f"machine 0 at {machine.address}:{machine.port}"
    connection = _connected(machine, where, give_up)
    with connection:
        connection.settimeout(_ANSWER_S)
        try:
            first, own = receive_line(connection), machine.introduction()
            is_shared = first["plan"] == own["plan"] and _is_there(machine.folder / str(first["mark"]))
            send_line(connection, {**own, "shared": is_shared})
            connection.settimeout(max(1.0, give_up - time.monotonic()) + _ANSWER_S)
            said = receive_line(connection)
        except (OSError, ValueError, KeyError) as problem:
            raise Missing(
                f"{where} left before all machines were there\n"
                f"  = because: {problem or type(problem).__name__}\n"
                f"  = fix: see what it said there, and start all machines again"
            ) from None
        if "wrong" in said:
            raise (Missing if said.get("missing") else Stopped)(str(said["wrong"]))
        tell_gloo(connection)


def _connected(machine: Machine, where: str, give_up: float) -> socket.socket:
    next_word = time.monotonic() + _SAID_EVERY_S
    while True:
        try:
            return socket.create_connection((machine.address, machine.port), timeout=10.0)
        except OSError as problem:
            if time.monotonic() > give_up:
                raise Missing(
                    f"{where} does not answer\n"
                    f"  = because: {problem}\n"
                    f"  = fix: launch.sh --node 0 there, and an address at which this machine reaches it"
                ) from None
            if time.monotonic() > next_word:
                next_word += _SAID_EVERY_S
                print(f"waiting for {where}: {problem}", file=sys.stderr, flush=True)
        time.sleep(_POLL_S * 5)


@contextlib.contextmanager
def _listening(machine: Machine) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    try:
        server = socket.create_server(
            ("", machine.port), family=family, dualstack_ipv6=family == socket.AF_INET6, backlog=machine.nodes
        )
    except OSError as problem:
        raise Stopped(
            f"port {machine.port} of machine 0 cannot be listened on\n"
            f"  = because: {problem.strerror}; maybe another run, or this machine was started twice\n"
            f"  = fix: another --port, the same number on all machines"
        ) from None
    with server:
        server.settimeout(_POLL_S)
        yield server


def _is_there(path: Path) -> bool:
    """Whether a file that another machine just made is seen here, for which a network file system is given time."""
    give_up = time.monotonic() + _ANSWER_S / 2
    while not path.exists():
        if time.monotonic() > give_up:
            return False
        time.sleep(_POLL_S)
    return True


def _has_left(connection: socket.socket) -> bool:
    """Whether the other side is gone: it says nothing more before machine 0 does."""
    with contextlib.suppress(BlockingIOError):
        connection.setblocking(False)
        try:
            return connection.recv(1) == b""
        except ConnectionError:
            return True
        finally:
            connection.settimeout(_ANSWER_S)
    return False


def _tell(others: dict[int, tuple[dict[str, Any], socket.socket]], word: dict[str, Any]) -> None:
    for _, connection in others.values():
        with contextlib.suppress(OSError):
            send_line(connection, word)
