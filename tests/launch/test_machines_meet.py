"""The machines of a run meet before they train, or all of them end at once and say why."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import grpo_recipes.worker
from grpo_recipes.worker.machines.machine import Machine
from grpo_recipes.worker.machines.network import interface_of, name_interface, receive_line, send_line
from grpo_recipes.worker.machines.seal import drawn, is_sealed, read_secret, sealed

LIMIT_S = 60
WORKER = Path(grpo_recipes.worker.__file__).parent
MEET = (
    "import sys; from pathlib import Path; from grpo_recipes.worker.machines.machine import Machine;"
    " from grpo_recipes.worker.machines.meeting import meet;"
    " folder, node, nodes, port, patience = sys.argv[1:];"
    " machine = Machine(Path(folder), int(node), int(nodes), '127.0.0.1', int(port));"
    " sys.exit(meet(machine, resumed=False, patience_s=float(patience)))"
)
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def port() -> int:
    """A port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the meeting needs of a run folder."""
    return _folder(tmp_path / "run", "the plan")


def _folder(folder: Path, plan: str) -> Path:
    (folder / "worker").mkdir(parents=True)
    (folder / "plan.json").write_text(plan)
    shutil.copyfile(WORKER / "meet.py", folder / "worker" / "meet.py")
    return folder


@pytest.fixture
def started() -> Iterator[Start]:
    """Starts the meeting of one machine; none of them outlives the test."""
    processes = []

    def start(
        folder: Path, node: int, port: int, *, nodes: int = 2, patience: float = LIMIT_S
    ) -> "subprocess.Popen[str]":
        words = [MEET, str(folder), str(node), str(nodes), str(port), str(patience)]
        process = subprocess.Popen([sys.executable, "-c", *words], stderr=subprocess.PIPE, text=True)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def _end(process: "subprocess.Popen[str]") -> tuple[int, str]:
    said = process.communicate(timeout=LIMIT_S)[1]
    return process.returncode, said


def _record(folder: Path) -> tuple[str, str]:
    record = json.loads((folder / "run.json").read_text())
    return record["status"], record["message"]


def test_machines_that_all_came_go_on(folder: Path, port: int, started: Start) -> None:
    machines = [started(folder, node, port, nodes=3) for node in (2, 0, 1)]
    assert [_end(machine) for machine in machines] == [(0, "")] * 3
    assert sorted(path.name for path in folder.iterdir()) == ["plan.json", "worker"]


def test_after_the_meeting_each_becomes_its_command(folder: Path, port: int) -> None:
    command = [sys.executable, "worker/meet.py", "{node}", "2", "127.0.0.1", str(port), "--", "bash", "-c"]
    told = 'echo "$0 $GLOO_SOCKET_IFNAME $NCCL_SOCKET_IFNAME $$"'
    machines = [
        subprocess.Popen(
            [*(word.format(node=node) for word in command), told, f"machine {node}"],
            cwd=folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        for node in (0, 1)
    ]
    said = [machine.communicate(timeout=LIMIT_S)[0].split() for machine in machines]
    loopback = interface_of("127.0.0.1")
    assert said == [
        ["machine", str(node), loopback, f"={loopback}", str(machine.pid)] for node, machine in enumerate(machines)
    ]


def test_an_interface_that_the_environment_names_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth1")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "^docker0")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as connection:
        name_interface(connection)
    assert (os.environ["GLOO_SOCKET_IFNAME"], os.environ["NCCL_SOCKET_IFNAME"]) == ("eth1", "^docker0")


def test_a_machine_that_does_not_come_is_named(folder: Path, port: int, started: Start) -> None:
    code, said = _end(started(folder, 0, port, nodes=3, patience=1.0))
    assert code == 75
    assert f"no call from machines 1, 2 of 3 at 127.0.0.1:{port}" in said
    assert _record(folder)[0] == "interrupted"


def test_a_first_machine_that_is_not_there_is_said(folder: Path, port: int, started: Start) -> None:
    code, said = _end(started(folder, 1, port, patience=1.0))
    assert (code, f"machine 0 at 127.0.0.1:{port} does not answer" in said) == (75, True)
    assert not (folder / "run.json").exists()


def test_a_number_that_is_used_twice_ends_all(folder: Path, port: int, started: Start) -> None:
    machines = [started(folder, node, port, nodes=3) for node in (0, 1, 1)]
    ends = [_end(machine) for machine in machines]
    assert [code for code, _ in ends] == [3, 3, 3]
    for _, said in ends:
        assert "machine 1 of 3 was started twice" in said
        assert f"process {machines[1].pid}" in said
        assert f"process {machines[2].pid}" in said
    assert _record(folder)[0] == "stopped"


def test_two_first_machines_share_no_port(folder: Path, port: int, started: Start) -> None:
    with socket.create_server(("", port)):
        code, said = _end(started(folder, 0, port))
    assert (code, f"port {port} of machine 0 cannot be listened on" in said) == (3, True)


def test_a_copy_of_the_folder_is_no_shared_folder(
    folder: Path, port: int, started: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    quick = MEET.replace("meet;", "meet; import grpo_recipes.worker.machines.joining as m; m.ANSWER_S = 2.0;", 1)
    monkeypatch.setitem(globals(), "MEET", quick)
    first = started(folder, 0, port)
    code, said = _end(started(copy, 1, port))
    assert (code, "does not see the run folder of machine 0" in said) == (3, True)
    assert [_end(each)[0] for each in (started(folder, 1, port), first)] == [0, 0]


def test_the_folder_of_another_plan_is_refused(folder: Path, port: int, started: Start, tmp_path: Path) -> None:
    first = started(folder, 0, port)
    code, said = _end(started(_folder(tmp_path / "other", "another plan"), 1, port))
    assert (code, "has another plan.json than machine 0" in said) == (3, True)
    assert [_end(each)[0] for each in (started(folder, 1, port), first)] == [0, 0]


def test_a_number_that_no_machine_has_ends_all(folder: Path, port: int, started: Start) -> None:
    ends = [_end(each) for each in (started(folder, 0, port), started(folder, 7, port))]
    assert [code for code, _ in ends] == [3, 3]
    assert all("is none of 2" in said for _, said in ends)


def test_a_stranger_on_the_port_holds_nobody_up(folder: Path, port: int, started: Start) -> None:
    first = started(folder, 0, port)
    _wait_for(port, b"GET / HTTP/1.1\r\n\r\n")
    second = started(folder, 1, port)
    ends = [_end(first), _end(second)]
    assert [code for code, _ in ends] == [0, 0]
    assert ends[0][1].startswith("a caller from 127.0.0.1 is not of this run")


def _wait_for(port: int, said: bytes) -> None:
    with _connected(port) as stranger:
        stranger.sendall(said)


def _connected(port: int) -> socket.socket:
    for _ in range(LIMIT_S * 10):
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
        except OSError:
            time.sleep(0.1)
    raise AssertionError("nobody listens")


def _introduce(connection: socket.socket, machine: Machine) -> None:
    """Says what a machine of the run says."""
    first = receive_line(connection, LIMIT_S)
    secret, number = read_secret(machine.folder, first["mark"]), drawn()
    assert secret is not None
    send_line(connection, sealed({**machine.introduction(), "number": number}, secret, "call", first["number"]))
    assert is_sealed(receive_line(connection, LIMIT_S), secret, "answer", number)


def test_a_machine_that_left_may_come_again(folder: Path, port: int, started: Start) -> None:
    first = started(folder, 0, port, nodes=3)
    with _connected(port) as left:
        _introduce(left, Machine(folder, 1, 3, "127.0.0.1", port))
    others = [started(folder, node, port, nodes=3) for node in (1, 2)]
    assert [_end(one)[0] for one in (first, *others)] == [0, 0, 0]


def test_a_signal_ends_the_waiting(folder: Path, port: int, started: Start) -> None:
    first = started(folder, 0, port)
    _wait_for(port, b"")
    os.kill(first.pid, signal.SIGTERM)
    assert _end(first)[0] == 75
