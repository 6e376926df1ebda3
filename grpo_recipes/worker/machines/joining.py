"""The side of a machine that calls machine 0, until it takes it in and says that all may go on."""

import re
import socket
import sys
import time
from pathlib import Path
from typing import Any

from grpo_recipes.contract.findings.finding import of_record
from grpo_recipes.worker._shared.refused import Refused
from grpo_recipes.worker.machines.machine import ANSWER_S, MARK, POLL_S, SAID_EVERY_S, Machine, Missing
from grpo_recipes.worker.machines.network import name_interface, receive_line, send_line
from grpo_recipes.worker.machines.seal import drawn, is_sealed, read_secret, sealed

_MARKS = re.compile(re.escape(MARK) + "[0-9a-f]{32}")


def call(machine: Machine, give_up: float) -> None:
    """Another machine: calls machine 0 until it takes it, and waits for its word."""
    where = f"machine 0 at {machine.address}:{machine.port}"
    while True:
        with _connected(machine, where, give_up) as connection:
            taken = _taken(machine, connection, where)
            if taken is None and time.monotonic() < give_up:
                time.sleep(POLL_S * 5)
                continue
            if taken is None:
                raise _left(where, "it takes no call")
            secret, number, said = taken
            if "wrong" not in said:
                try:
                    said = receive_line(connection, max(1.0, give_up - time.monotonic()) + ANSWER_S)
                except (OSError, ValueError) as problem:
                    raise _left(where, str(problem) or type(problem).__name__) from None
            if not is_sealed(said, secret, "answer", number):
                raise _left(where, "what it says is not sealed with the secret of this run")
            if "wrong" in said:
                raise (Missing if said.get("missing") else Refused)(*map(of_record, said["wrong"]))
            name_interface(connection)
            return


def _taken(machine: Machine, connection: socket.socket, where: str) -> tuple[str, str, dict[str, Any]] | None:
    """The secret, this machine's number and the answer, after it said who it is; None where it was not heard.

    Raises Refused for another run folder than that of machine 0, and Missing where somebody else answers there.
    """
    try:
        first = receive_line(connection, ANSWER_S)
    except OSError:
        return None
    except ValueError as problem:
        raise _left(where, f"who answers there is not machine 0: {problem}") from None
    own = machine.introduction()
    who = f"machine {machine.node} ({own['host']})"
    if first.get("plan") != own["plan"]:
        raise Refused.of(
            f"{who} has another plan.json than {where}",
            because="its run folder is another one",
            fix="start all machines from one folder that they share",
        )
    secret = _secret_in(machine.folder, str(first.get("mark")))
    if secret is None:
        raise Refused.of(
            f"{who} does not see the run folder of {where}",
            because="a file that machine 0 wrote there is not in its folder, which is a copy, or cannot be read",
            fix="a run folder on a disk that all machines share, and the same user on all of them",
        )
    number = drawn()
    try:
        send_line(connection, sealed({**own, "number": number}, secret, "call", str(first.get("number"))))
        return secret, number, receive_line(connection, ANSWER_S)
    except (OSError, ValueError):
        return None


def _left(where: str, because: str) -> Missing:
    return Missing.of(
        f"{where} left before all machines were there",
        because=because,
        fix="see what it said there, and start all machines again",
    )


def _connected(machine: Machine, where: str, give_up: float) -> socket.socket:
    next_word = time.monotonic() + SAID_EVERY_S
    while True:
        try:
            return socket.create_connection((machine.address, machine.port), timeout=10.0)
        except OSError as problem:
            if time.monotonic() > give_up:
                raise Missing.of(
                    f"{where} does not answer",
                    because=str(problem),
                    fix="launch.sh --node 0 there, and an address at which this machine reaches it",
                ) from None
            if time.monotonic() > next_word:
                next_word += SAID_EVERY_S
                print(f"waiting for {where}: {problem}", file=sys.stderr, flush=True)
        time.sleep(POLL_S * 5)


def _secret_in(folder: Path, mark: str) -> str | None:
    """The secret that machine 0 just wrote, for which a network file system is given time; None where there is none."""
    if not _MARKS.fullmatch(mark):
        return None
    give_up = time.monotonic() + ANSWER_S / 2
    while (secret := read_secret(folder, mark)) is None and time.monotonic() < give_up:
        time.sleep(POLL_S)
    return secret
