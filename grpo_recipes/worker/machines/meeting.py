"""The machines of a run meet before anything heavy is imported: each once, with one plan, in one shared folder.

torch's static rendezvous knows no such mistakes: for a machine that is missing, or that is there twice, it waits 15
minutes without a word, and a folder that is a copy is found when the last checkpoint is looked for.

Machine 0 listens, the others call it. All of them say what they have, machine 0 says what is wrong or that they go on.
It writes a secret into the folder that they share, for this one meeting: who cannot read it is a stranger, who is
neither heard nor waited for. No secret is sent.
"""

import contextlib
import os
import signal
import socket
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

from grpo_recipes.contract.exits import EXIT_DONE, EXIT_INTERRUPTED, EXIT_STOPPED
from grpo_recipes.contract.files.folder_files import remove
from grpo_recipes.contract.files.folder_lock import holder
from grpo_recipes.contract.findings.finding import Finding, as_record, mistake
from grpo_recipes.contract.findings.mistake import Mistake
from grpo_recipes.contract.host.standard_streams import make_steady
from grpo_recipes.contract.secrets.redact import hide_secrets
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker._shared.refused import Refused
from grpo_recipes.worker.machines.callers import Callers
from grpo_recipes.worker.machines.joining import call
from grpo_recipes.worker.machines.machine import ANSWER_S, MARK, POLL_S, SAID_EVERY_S, Machine, Missing
from grpo_recipes.worker.machines.network import name_interface, send_line
from grpo_recipes.worker.machines.seal import is_sealed, sealed, write_secret

_PATIENCE_S = 600.0
_BACKLOG = 128
_NAMED_STRANGERS = 8

Others = dict[int, tuple[dict[str, Any], socket.socket]]


def meet(machine: Machine, *, resumed: bool, patience_s: float = _PATIENCE_S) -> int:
    """0 when all machines of the run are there; else the exit code, after it was said what is wrong.

    3 for what starting again would not mend, 75 for a machine that did not come. Machine 0 writes it into run.json.
    """
    make_steady()
    _leave_when_asked()
    give_up = time.monotonic() + patience_s
    try:
        (_listen if machine.node == 0 else call)(machine, give_up)
        return EXIT_DONE
    except Refused as problem:
        return _ended(machine, "stopped", EXIT_STOPPED, problem, resumed=resumed)
    except Missing as problem:
        return _ended(machine, "interrupted", EXIT_INTERRUPTED, problem, resumed=resumed)


def _ended(machine: Machine, status: str, code: int, problem: Mistake, *, resumed: bool) -> int:
    # A training that goes on there, maybe on the very port, keeps its record.
    if machine.node == 0 and holder(machine.folder) is None:
        record = Record(machine.folder, 0)
        record.start(resumed=resumed)
        record.end(status, code, problem)
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
    mark = f"{MARK}{uuid.uuid4().hex}"
    secret = write_secret(machine.folder, mark)
    others: Others = {}
    try:
        with _listening(machine) as server:
            own = machine.introduction()
            callers = Callers(server, {"mark": mark, "plan": own["plan"]}, ANSWER_S)
            try:
                _gather(machine, callers, secret, others, give_up)
            except (Refused, Missing) as problem:
                _tell(
                    others,
                    secret,
                    {"wrong": [as_record(one) for one in problem.findings], "missing": isinstance(problem, Missing)},
                )
                raise
            finally:
                callers.close()
            _tell(others, secret, {"go": True})
            name_interface(next(iter(others.values()))[1])
    finally:
        for _, connection in others.values():
            connection.close()
        with contextlib.suppress(OSError):
            remove(machine.folder, mark)


def _gather(machine: Machine, callers: Callers, secret: str, others: Others, give_up: float) -> None:
    own = machine.introduction()
    strangers: Counter[str] = Counter()
    next_word = time.monotonic() + SAID_EVERY_S
    while len(others) < machine.nodes - 1:
        if time.monotonic() > give_up:
            raise _missing(machine, others, strangers)
        if time.monotonic() > next_word:
            next_word += SAID_EVERY_S
            print(f"waiting for {_absent(machine, others)}{_of(strangers)}", file=sys.stderr, flush=True)
        for node in [node for node, (_, connection) in others.items() if _has_left(connection)]:
            others.pop(node)[1].close()
        for caller, said in callers.heard(POLL_S):
            if said is None or not is_sealed(said, secret, "call", caller.number) or not isinstance(said["node"], int):
                caller.connection.close()
                _note_stranger(strangers, caller.address)
                continue
            problem = _wrong(own, said, others)
            _answer(
                caller.connection,
                secret,
                said,
                {"welcome": True} if problem is None else {"wrong": [as_record(problem)]},
            )
            if problem is not None:
                caller.connection.close()
                raise Refused(problem)
            others[said["node"]] = (said, caller.connection)


def _note_stranger(strangers: "Counter[str]", address: str) -> None:
    """Counts a caller that is not of this run, and says so for the first one of an address."""
    if address not in strangers and len(strangers) < _NAMED_STRANGERS:
        print(
            f"a caller from {address} is not of this run, or has another run folder or a copy: it is not heard",
            file=sys.stderr,
            flush=True,
        )
    if address in strangers or len(strangers) < _NAMED_STRANGERS:
        strangers[address] += 1


def _of(strangers: "Counter[str]") -> str:
    named = ", ".join(f"{address} ({count})" for address, count in strangers.items())
    return f"; calls that are not of this run, or of another folder: {named}" if named else ""


def _answer(connection: socket.socket, secret: str, said: dict[str, Any], word: dict[str, Any]) -> None:
    """Says something to a machine that called; one that is gone by now is seen later."""
    connection.settimeout(ANSWER_S)
    with contextlib.suppress(OSError):
        send_line(connection, sealed(word, secret, "answer", str(said["number"])))


def _wrong(own: dict[str, Any], said: dict[str, Any], others: Others) -> Finding | None:
    """What is wrong with a machine that called, None when it is the right one."""
    who = f"machine {said['node']} ({said.get('host')})"
    if said.get("plan") != own["plan"] or said.get("nodes") != own["nodes"]:
        return mistake(
            f"{who} has another plan.json than machine 0 ({own['host']})",
            because="its run folder is another one",
            fix="start all machines from one folder that they share",
        )
    if not 0 <= said["node"] < own["nodes"]:
        return mistake(
            f"{who} is none of {own['nodes']}", fix=f"--node 0 to --node {own['nodes'] - 1}, each number once"
        )
    twice = own if said["node"] == 0 else others[said["node"]][0] if said["node"] in others else None
    if twice is not None:
        return mistake(
            f"machine {said['node']} of {own['nodes']} was started twice",
            because=f"process {twice['pid']} on {twice['host']}, process {said['pid']} on {said['host']}",
            fix="launch.sh --node 0 on the first machine, --node 1 on the next, each number once",
        )
    return None


def _absent(machine: Machine, others: Others) -> str:
    absent = [str(node) for node in range(1, machine.nodes) if node not in others]
    shown = ", ".join(absent[:8]) + (", ..." if len(absent) > 8 else "")
    return f"machine{'' if len(absent) == 1 else 's'} {shown} of {machine.nodes} at {machine.address}:{machine.port}"


def _missing(machine: Machine, others: Others, strangers: "Counter[str]") -> Missing:
    return Missing.of(
        f"no call from {_absent(machine, others)}",
        because=f"it was not started, or cannot reach that address{_of(strangers)}",
        fix="launch.sh on each machine, with the address of machine 0 as the others reach it",
    )


@contextlib.contextmanager
def _listening(machine: Machine) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    try:
        server = socket.create_server(
            ("", machine.port),
            family=family,
            dualstack_ipv6=family == socket.AF_INET6,
            backlog=_BACKLOG + machine.nodes,
        )
    except OSError as problem:
        raise Refused.of(
            f"port {machine.port} of machine 0 cannot be listened on",
            because=f"{problem.strerror}; maybe another run, or this machine was started twice",
            fix="another --port, the same number on all machines",
        ) from None
    with server:
        yield server


def _has_left(connection: socket.socket) -> bool:
    """Whether the other side is gone: it says nothing more before machine 0 does."""
    with contextlib.suppress(BlockingIOError):
        connection.setblocking(False)
        try:
            return connection.recv(1) == b""
        except ConnectionError:
            return True
        finally:
            connection.settimeout(ANSWER_S)
    return False


def _tell(others: Others, secret: str, word: dict[str, Any]) -> None:
    for said, connection in others.values():
        _answer(connection, secret, said, word)
