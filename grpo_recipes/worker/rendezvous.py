"""Makes the machines of a run meet before training, to check that all have one plan, one stack and one shared folder.

torch's launcher checks none of this, and waits minutes for a missing machine without naming it. Here machine 0 serves a
TCPStore, each machine writes its identity into it, and the first machine that knows the outcome records it. The
launcher in machine 0's process serves its own rendezvous from the same store, so a machine that starts late, or twice,
still gets the error.
"""

import contextlib
import hashlib
import json
import os
import signal
import socket
import sys
import time
import uuid
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
from torch.distributed import DistError, TCPStore

from grpo_recipes.contract.exits import EXIT_INTERRUPTED, EXIT_STOPPED
from grpo_recipes.contract.files.folder_files import names, read_bytes, remove, write_whole
from grpo_recipes.contract.files.folder_lock import holder
from grpo_recipes.contract.findings.finding import as_record, of_record
from grpo_recipes.contract.findings.findings_text import Mistake
from grpo_recipes.contract.host.standard_streams import make_steady
from grpo_recipes.contract.secrets.redact import hide_secrets
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.checkpoints.checkpoint import package_versions

_PATIENCE_S = 600.0
_REMINDER_S = 30.0
_POLL_S = 0.2
_STORE_S = timedelta(seconds=30)
# A network file system may show a new file only after 30 seconds.
_MARK_S = 45.0
_FAREWELL_S = 10.0
_OUTCOME = "outcome"


class Missing(Mistake):
    """A machine did not arrive, or left before all machines had arrived."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine of a run. node: its index of `nodes`; address, port: of machine 0."""

    folder: Path
    node: int
    nodes: int
    address: str
    port: int

    @property
    def first(self) -> str:
        """Returns machine 0's name in messages."""
        return f"machine 0 at {self.address}:{self.port}"


def meet(machine: Machine, *, resumed: bool, patience_s: float = _PATIENCE_S) -> TCPStore:
    """Returns the meeting's store once all machines have arrived; machine 0 has to keep it.

    Otherwise reports the error and exits: with 3 if starting again would not help, with 75 if a machine is missing.
    Machine 0 records it in run.json.
    """
    make_steady()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        return _gather(machine, time.monotonic() + patience_s)
    except Mistake as problem:
        is_final = isinstance(problem, Refused)
        status, code = ("stopped", EXIT_STOPPED) if is_final else ("interrupted", EXIT_INTERRUPTED)
        # If a training already runs in the folder, its record stays.
        if machine.node == 0 and holder(machine.folder) is None:
            record = Record(machine.folder, 0)
            record.start(resumed=resumed)
            record.end(status, code, problem)
        print(hide_secrets(f"error: {problem}"), file=sys.stderr, flush=True)
        sys.exit(code)
    except _AskedToLeave as asked:
        print(f"{signal.Signals(asked.number).name} before the training began", file=sys.stderr, flush=True)
        raise


class _AskedToLeave(SystemExit):
    """A signal asked this process to leave. The handler does not print, since it may have interrupted a print."""

    def __init__(self, number: int) -> None:
        super().__init__(EXIT_INTERRUPTED)
        self.number = number


def _leave(number: int, _: object) -> None:
    raise _AskedToLeave(number)


def _gather(machine: Machine, give_up: float) -> TCPStore:
    address, server = _reach_first(machine, give_up) if machine.node else ("", "")
    mark = f".meeting.{uuid.uuid4().hex}"
    store = _open_store(machine)
    try:
        if machine.node == 0:
            write_whole(machine.folder, mark, "")
        _join(machine, store, {"mark": mark, "server": server})
        _wait_for_outcome(machine, store, give_up)
        _name_interface(address or json.loads(store.get(_key(1)))["server"])
    except DistError as problem:
        raise _first_left(machine, problem) from None
    finally:
        with contextlib.suppress(OSError):  # only machine 0 wrote one
            remove(machine.folder, mark)
    return store


def _reach_first(machine: Machine, give_up: float) -> tuple[str, str]:
    """Waits until machine 0 serves; returns this machine's address as seen from there, and its own."""
    reminder = time.monotonic() + _REMINDER_S
    while True:
        try:
            with socket.create_connection((machine.address, machine.port), timeout=10.0) as connection:
                return connection.getsockname()[0], connection.getpeername()[0]
        except OSError as problem:
            if time.monotonic() > give_up:
                raise Missing.of(
                    f"{machine.first} does not answer",
                    because=str(problem),
                    fix="launch.sh --node 0 there, and an address at which this machine reaches it",
                ) from None
            if time.monotonic() > reminder:
                reminder += _REMINDER_S
                print(f"waiting for {machine.first}: {problem}", file=sys.stderr, flush=True)
        time.sleep(1.0)


def _open_store(machine: Machine) -> TCPStore:
    is_first = machine.node == 0
    try:
        # multi_tenant: torch's launcher, in this process, serves from the same store.
        return TCPStore(
            machine.address,
            machine.port,
            is_master=is_first,
            timeout=_STORE_S,
            wait_for_workers=False,
            multi_tenant=True,
        )
    except DistError as problem:
        if not is_first:
            raise _first_left(machine, problem) from None
        raise Refused.of(
            f"machine 0 cannot serve at {machine.address}:{machine.port}",
            because=(
                str(problem).partition("\n")[0],
                "a different run uses the port, this machine was started twice, or the address is not this machine's",
            ),
            fix="pass --address of this machine, and the same free --port on all machines",
        ) from None


def _first_left(machine: Machine, problem: DistError) -> Missing:
    return Missing.of(
        f"{machine.first} left before all machines had arrived",
        because=str(problem).partition("\n")[0],
        fix="read its output, and start all machines again",
    )


def _join(machine: Machine, store: TCPStore, more: dict[str, str]) -> None:
    """Claims this machine's number. If that fails, tells the others and raises Refused."""
    plan = hashlib.sha256(read_bytes(machine.folder, "plan.json")).hexdigest()
    own = {"plan": plan, "releases": package_versions(), "host": socket.gethostname(), "pid": os.getpid(), **more}
    try:
        if machine.node:
            _compare(machine, store, own)
        taken = json.loads(store.compare_set(_key(machine.node), "", json.dumps(own)))
        if taken != own:
            raise Refused.of(
                f"machine {machine.node} of {machine.nodes} was started twice",
                because=f"process {taken['pid']} on {taken['host']}, process {own['pid']} on {own['host']}",
                fix="end both, then launch.sh --node 0 on the first machine, --node 1 on the next, each number once",
            )
    except Refused as problem:
        _decide(store, problem)
        raise


def _compare(machine: Machine, store: TCPStore, own: dict[str, Any]) -> None:
    """Raises Refused if this machine differs from machine 0."""
    first = json.loads(store.get(_key(0)))
    this, other = f"machine {machine.node} ({own['host']})", f"machine 0 ({first['host']})"
    if own["plan"] != first["plan"]:
        raise Refused.of(
            f"{this} has a different plan.json than {other}",
            because="it was started in a different run folder",
            fix="start all machines from one folder that they share",
        )
    packages = sorted(own["releases"].keys() | first["releases"].keys())
    releases = [(name, own["releases"].get(name), first["releases"].get(name)) for name in packages]
    if own["releases"] != first["releases"]:
        raise Refused.of(
            f"{this} has a different stack than {other}",
            because=[f"{name} {here}, there {there}" for name, here, there in releases if here != there],
            fix="the same environment on all machines",
        )
    # Machine 0 removes its mark after the outcome, which has more detail.
    give_up = time.monotonic() + _MARK_S
    while first["mark"] not in names(machine.folder) and not store.check([_OUTCOME]):
        if time.monotonic() > give_up:
            raise Refused.of(
                f"{this} does not see the run folder of {other}",
                because="machine 0 wrote a file into the folder, and it is missing here, so this folder is a copy",
                fix="put the run folder on a disk that all machines share",
            )
        time.sleep(_POLL_S)


def _wait_for_outcome(machine: Machine, store: TCPStore, give_up: float) -> None:
    """Returns when all machines have arrived. Raises Refused or Missing, the same on all machines."""
    reminder = time.monotonic() + _REMINDER_S
    try:
        while not store.check([_OUTCOME]):
            absent = [str(node) for node in range(machine.nodes) if not store.check([_key(node)])]
            which = f"machine{'s' if len(absent) > 1 else ''} {', '.join(absent)} of {machine.nodes}"
            if not absent:
                _decide(store)
            elif time.monotonic() > give_up:
                _decide(
                    store,
                    Missing.of(
                        f"no call from {which} at {machine.address}:{machine.port}",
                        because="it was not started, or cannot reach that address",
                        fix="launch.sh on each machine, with the address of machine 0 as the others reach it",
                    ),
                )
            elif time.monotonic() > reminder:
                reminder += _REMINDER_S
                print(f"waiting for {which} at {machine.address}:{machine.port}", file=sys.stderr, flush=True)
            time.sleep(_POLL_S)
        outcome = json.loads(store.get(_OUTCOME))
        if outcome["wrong"]:
            if machine.node == 0:
                _wait_until_read(machine, store)
            raise (Missing if outcome["is_missing"] else Refused)(*map(of_record, outcome["wrong"]))
    except BaseException:
        store.delete_key(_key(machine.node))  # so that it may join again
        raise


def _wait_until_read(machine: Machine, store: TCPStore) -> None:
    """Keeps the store until the other machines have read the outcome and left."""
    give_up = time.monotonic() + _FAREWELL_S
    while time.monotonic() < give_up and any(store.check([_key(node)]) for node in range(1, machine.nodes)):
        time.sleep(_POLL_S)


def _decide(store: TCPStore, problem: Mistake | None = None) -> None:
    """Records how the meeting ends, unless another machine already did."""
    wrong = [as_record(finding) for finding in problem.findings] if problem else []
    store.compare_set(_OUTCOME, "", json.dumps({"wrong": wrong, "is_missing": isinstance(problem, Missing)}))


def _key(node: int) -> str:
    return f"machine/{node}"


def _name_interface(address: str) -> None:
    """Makes gloo and NCCL use the interface with this address, unless the environment names a different one.

    By default gloo takes the address of the host's name, which on Debian is 127.0.1.1, and NCCL the first interface
    that is neither loopback nor docker's, such as a bridge of virtual machines. InfiniBand still carries NCCL's data.
    """
    address = address.removeprefix("::ffff:")
    for name, interface in psutil.net_if_addrs().items():
        if address in (known.address for known in interface):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
            os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={name}")  # "=": this one, not all whose names start with it
            return
