"""The machines of a run meet before they train, or all of them end and say why: two networks with a cable."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.networks import Network, two_networks

import grpo_recipes.worker

pytestmark = pytest.mark.stack

LIMIT_S = 240
PORT = 29611
WORKER = Path(grpo_recipes.worker.__file__).parent
MEET = """
import os, sys
from pathlib import Path
from grpo_recipes.worker import rendezvous
print("process", os.getpid())
folder, node, nodes, address, port, patience, change = sys.argv[1:]
exec(change)
machine = rendezvous.Machine(Path(folder), int(node), int(nodes), address, int(port))
store = rendezvous.meet(machine, resumed=False, patience_s=float(patience))
store.set(f"ready/{node}", "")
if node == "0":
    store.wait([f"ready/{other}" for other in range(int(nodes))])
"""
REMINDING = "rendezvous._REMINDER_S = 1.0"
ACCELERATE_YAML = """
compute_environment: LOCAL_MACHINE
distributed_type: MULTI_GPU
num_machines: 2
num_processes: 2
machine_rank: 0
rdzv_backend: static
use_cpu: true
mixed_precision: "no"
"""
TRAIN = """
import os, sys, torch
torch.distributed.init_process_group("gloo")
total = torch.tensor([torch.distributed.get_rank() + 1])
torch.distributed.all_reduce(total)
torch.distributed.destroy_process_group()
print("trained", int(total), os.environ["GLOO_SOCKET_IFNAME"], os.environ["NCCL_SOCKET_IFNAME"], sys.argv[1:])
"""
WAIT = """
import time
from pathlib import Path
Path("trains").touch()
while not Path("enough").exists():
    time.sleep(0.1)
"""
Process = subprocess.Popen[str]
Start = Callable[..., Process]


@pytest.fixture(scope="module")
def networks() -> Iterator[tuple[Network, Network]]:
    with two_networks() as two:
        yield two


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the meeting needs of a run folder."""
    return make(tmp_path / "run", "the plan")


def make(folder: Path, plan: str, train: str = TRAIN) -> Path:
    (folder / "worker").mkdir(parents=True)
    (folder / "plan.json").write_text(plan)
    (folder / "accelerate.yaml").write_text(ACCELERATE_YAML)
    (folder / "worker" / "train.py").write_text(train)
    shutil.copyfile(WORKER / "meet.py", folder / "worker" / "meet.py")
    return folder


@pytest.fixture
def started(networks: tuple[Network, Network], warm_python: Path) -> Iterator[Start]:
    """Starts a machine, the first in one network and each other in the second; none of them outlives the test.

    change: of the module of the meeting. trains: becomes the launcher, too.
    """
    processes: list[Process] = []

    def start(
        folder: Path,
        node: int,
        nodes: int = 2,
        patience: float = LIMIT_S,
        change: str = "",
        trains: bool = False,
        network: Network | None = None,
    ) -> Process:
        network = network or networks[min(node, 1)]
        words = [str(node), str(nodes), networks[0].address, str(PORT)]
        command = ["worker/meet.py", *words, "--resume"]
        if not trains:
            command = ["-c", MEET, str(folder), *words, str(patience), change]
        processes.append(
            subprocess.Popen(
                [*network.prefix, str(warm_python / "python"), "-Xwarm", "-P", *command],
                cwd=folder,
                env={**os.environ, "OMP_NUM_THREADS": "1", "RES_OPTIONS": "timeout:1 attempts:1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def end(process: Process) -> tuple[int, str]:
    output = process.communicate(timeout=LIMIT_S)[0]
    return process.returncode, output


def record(folder: Path) -> tuple[str, str]:
    content = json.loads((folder / "run.json").read_text())
    return content["status"], content["message"]


def wait_for_first(network: Network, sent: bytes = b"") -> None:
    """Waits until machine 0 serves."""
    call = f"import socket; socket.create_connection(({network.address!r}, {PORT}), 5).sendall({sent!r})"
    give_up = time.monotonic() + LIMIT_S
    while subprocess.run([*network.prefix, sys.executable, "-IS", "-c", call], stderr=subprocess.DEVNULL).returncode:
        assert time.monotonic() < give_up, "nobody serves"
        time.sleep(0.1)


def wait_for_line(process: Process, words: str) -> None:
    assert process.stdout is not None
    assert any(words in line for line in process.stdout)


def test_both_machines_come_and_train_together(folder: Path, networks: tuple[Network, Network], started: Start) -> None:
    both = [started(folder, node, trains=True) for node in (1, 0)]
    ends = [end(machine) for machine in both]
    assert [code for code, _ in ends] == [0, 0], "\n".join(output for _, output in ends)
    interfaces = [network.prefix[-1] if network.prefix else "lo" for network in reversed(networks)]
    for (_, output), interface in zip(ends, interfaces, strict=True):
        assert f"trained 3 {interface} ={interface} ['--resume']" in output
    assert sorted(path.name for path in folder.iterdir()) == ["accelerate.yaml", "plan.json", "worker"]


def test_a_missing_machine_is_named_while_the_others_wait_and_at_the_end(folder: Path, started: Start) -> None:
    both = [started(folder, node, nodes=4, patience=20.0, change=REMINDING) for node in (0, 2)]
    for code, output in map(end, both):
        assert code == 75, output
        assert "waiting for machines 1, 3 of 4" in output
        assert "error: no call from machines 1, 3 of 4" in output
    assert record(folder)[0] == "interrupted"
    assert "machines 1, 3 of 4" in record(folder)[1]


def test_a_missing_first_machine_is_named(folder: Path, started: Start) -> None:
    code, output = end(started(folder, 1, patience=3.0, change=REMINDING))
    assert code == 75, output
    assert "waiting for machine 0 at" in output
    assert "error: machine 0 at" in output and "does not answer" in output
    assert not (folder / "run.json").exists()


def test_a_machine_that_is_there_twice_ends_all_and_is_named(folder: Path, started: Start) -> None:
    machines = [started(folder, node, nodes=3) for node in (0, 1, 1)]
    ends = [end(machine) for machine in machines]
    twice = [output.splitlines()[0] for _, output in ends[1:]]
    assert twice[0].startswith("process ") and twice[0] != twice[1]
    for code, output in ends:
        assert code == 3, output
        assert "machine 1 of 3 was started twice" in output
        assert all(process in output for process in twice), output
    assert record(folder)[0] == "stopped"


def test_a_first_machine_that_is_there_twice_is_named(
    folder: Path, networks: tuple[Network, Network], started: Start
) -> None:
    first = started(folder, 0)
    wait_for_first(networks[0])
    code, output = end(started(folder, 0))
    assert code == 3 and "machine 0 cannot serve at" in output and "EADDRINUSE" in output
    if networks[1].prefix:
        again = started(folder, 0, network=networks[1])
        for code, output in (end(again), end(first)):
            assert code == 3 and "machine 0 of 2 was started twice" in output, output


def test_a_machine_that_comes_once_more_during_the_training_ends_alone(folder: Path, started: Start) -> None:
    (folder / "worker" / "train.py").write_text(WAIT + TRAIN)
    both = [started(folder, node, trains=True) for node in (0, 1)]
    give_up = time.monotonic() + LIMIT_S
    while not (folder / "trains").exists():
        assert time.monotonic() < give_up
        time.sleep(0.1)
    code, output = end(started(folder, 1))
    (folder / "enough").touch()
    assert code == 3 and "machine 1 of 2 was started twice" in output, output
    assert [end(machine)[0] for machine in both] == [0, 0]


def test_a_machine_with_a_different_plan_ends_all_and_is_named(folder: Path, started: Start, tmp_path: Path) -> None:
    machines = [started(folder, 0), started(make(tmp_path / "other", "a different plan"), 1)]
    for code, output in map(end, machines):
        assert code == 3, output
        assert f"machine 1 ({socket.gethostname()}) has a different plan.json than machine 0" in output
    assert record(folder)[0] == "stopped"


def test_a_machine_with_a_different_stack_ends_all_and_is_named(folder: Path, started: Start) -> None:
    change = "rendezvous.package_versions = lambda: {'trl': '1.15.0', 'torch': '2.13.0'}"
    machines = [started(folder, 0, change=change), started(folder, 1, change=change.replace("1.15", "1.16"))]
    for code, output in map(end, machines):
        assert code == 3, output
        assert "has a different stack than machine 0" in output and "trl 1.16.0, there 1.15.0" in output


def test_a_copy_of_the_folder_ends_all(folder: Path, started: Start, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    machines = [started(folder, 0), started(copy, 1, change="rendezvous._MARK_S = 2.0")]
    for code, output in map(end, machines):
        assert code == 3, output
        assert "does not see the run folder of machine 0" in output


def test_a_machine_that_was_asked_to_leave_may_come_again(folder: Path, started: Start) -> None:
    first, second = started(folder, 0, nodes=3), started(folder, 1, nodes=3, change=REMINDING)
    wait_for_line(second, "waiting for machine 2 of 3")
    second.terminate()
    code, output = end(second)
    assert code == 75 and "SIGTERM before the training began" in output
    again = [started(folder, node, nodes=3) for node in (1, 2)]
    assert [end(machine)[0] for machine in (first, *again)] == [0, 0, 0]


def test_a_first_machine_that_leaves_ends_the_others(folder: Path, started: Start) -> None:
    first, second = started(folder, 0, nodes=3), started(folder, 1, nodes=3, change=REMINDING)
    wait_for_line(second, "waiting for machine 2 of 3")
    first.kill()
    code, output = end(second)
    assert code == 75 and "left before all machines had arrived" in output


def test_a_caller_of_another_kind_ends_nothing(folder: Path, networks: tuple[Network, Network], started: Start) -> None:
    first = started(folder, 0)
    wait_for_first(networks[0], b"GET / HTTP/1.1\r\n\r\n")
    ends = [end(started(folder, 1)), end(first)]
    assert [code for code, _ in ends] == [0, 0], ends


def test_an_interface_that_the_environment_names_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from grpo_recipes.worker.rendezvous import _name_interface

    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth1")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "^docker0")
    _name_interface("127.0.0.1")
    assert (os.environ["GLOO_SOCKET_IFNAME"], os.environ["NCCL_SOCKET_IFNAME"]) == ("eth1", "^docker0")
