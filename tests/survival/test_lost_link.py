"""Machines that lose each other end in time, say so, and go on to the same weights when they are back."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.processes import wait_until
from two_machines import Machine, cut, ended, heal, two_machines, why_not

pytestmark = [pytest.mark.survival, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

ROOT = Path(__file__).parents[2]
DDP_TIMEOUT_S = 20
# torch's launchers, the last words, and a machine of CI that is slow.
MORE_S = 30
VALUES: dict[str, object] = {
    "launch.num_nodes": 2,
    "launch.num_processes": 2,
    "launch.gpus_per_node": 0,
    "trl.ddp_timeout": DDP_TIMEOUT_S,
    "training.max_steps": 10,
    "training.prompts_per_step": 8,
    "training.per_device_train_batch_size": 16,
    "training.save_steps": 4,
    "evaluation": None,
}
Pair = tuple[Machine, Machine]


@pytest.fixture(scope="module")
def machines(python: str) -> Iterator[Pair]:
    with two_machines(python) as pair:
        yield pair


@pytest.fixture(scope="module")
def uninterrupted(machines: Pair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of a run that nothing happened to."""
    folder = made(tmp_path_factory.mktemp("uninterrupted") / "run")
    assert [code for code, _ in ended([machine.start(folder) for machine in machines])] == [0, 0], said(
        machines, folder
    )
    return folder


def made(folder: Path) -> Path:
    options = [word for key, value in VALUES.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    command = [sys.executable, "-m", "grpo_recipes.cli.main", "recipes/quickstart.yaml", "--out", str(folder)]
    done = subprocess.run([*command, "--dry-run", *options], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def said(machines: Pair, folder: Path) -> str:
    return "\n\n".join(machine.output(folder) for machine in machines)


def record(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return found


def weights(folder: Path) -> bytes:
    return (folder / "final" / "adapter_model.safetensors").read_bytes()


def wait_for_step(folder: Path, step: int, started: list["subprocess.Popen[str]"]) -> None:
    end = time.monotonic() + 400
    while record_step(folder) < step:
        assert time.monotonic() < end and all(process.poll() is None for process in started), record(folder)
        time.sleep(0.02)


def record_step(folder: Path) -> int:
    metrics = folder / "metrics.jsonl"
    return sum('"step"' in line and '"loss"' in line for line in metrics.open()) if metrics.exists() else 0


def test_a_cut_link_ends_both_sides_in_time_and_both_go_on(machines: Pair, uninterrupted: Path, tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    started = [machine.start(folder) for machine in machines]
    wait_for_step(folder, 5, started)
    cut(machines[1])
    ends = ended(started)
    print(f"link cut with ddp_timeout {DDP_TIMEOUT_S} s: ended after {[round(seconds, 1) for _, seconds in ends]} s")
    heal(machines[1])

    output = said(machines, folder)
    assert max(seconds for _, seconds in ends) < DDP_TIMEOUT_S + MORE_S, output
    assert all(code > 0 for code, _ in ends), output
    wait_until(lambda: all(machine.processes() == [] for machine in machines), timeout_s=2)
    left = record(folder)
    assert (left["status"], left["exit_code"]) == ("interrupted", 75), output
    assert f"no answer from the other processes for {DDP_TIMEOUT_S} s" in left["message"]
    assert "--resume" in left["message"]
    for machine in machines:
        assert f"error: no answer from the other processes for {DDP_TIMEOUT_S} s, in " in machine.output(folder)

    again = ended([machine.start(folder, "--resume") for machine in machines])
    assert [code for code, _ in again] == [0, 0], said(machines, folder)
    assert record(folder)["status"] == "completed"
    assert weights(folder) == weights(uninterrupted)


def test_a_machine_without_power_ends_the_other_one_in_time(
    machines: Pair, uninterrupted: Path, tmp_path: Path
) -> None:
    folder = made(tmp_path / "run")
    started = [machine.start(folder) for machine in machines]
    wait_for_step(folder, 5, started)
    machines[0].kill()
    ends = ended(started)
    print(f"first machine killed: the other one ended after {ends[1][1]:.1f} s")

    output = said(machines, folder)
    assert ends[1][0] > 0 and ends[1][1] < DDP_TIMEOUT_S + MORE_S, output
    wait_until(lambda: machines[1].processes() == [], timeout_s=2)
    left = record(folder)
    assert (left["status"], left["exit_code"]) == ("interrupted", 75), output
    assert "the connection to another process broke, at [10.77.0.1]:" in left["message"]

    again = ended([machine.start(folder, "--resume") for machine in machines])
    assert [code for code, _ in again] == [0, 0], said(machines, folder)
    assert weights(folder) == weights(uninterrupted)


def test_a_process_that_the_kernel_kills_is_a_failure_on_all_machines(machines: Pair, tmp_path: Path) -> None:
    folder = made(tmp_path / "run")
    started = [machine.start(folder) for machine in machines]
    wait_for_step(folder, 3, started)
    ranks = [pid for pid in machines[1].processes() if _is_rank(pid)]
    os.kill(ranks[0], 9)
    ends = ended(started)

    assert all(0 < code < 128 and seconds < DDP_TIMEOUT_S + MORE_S for code, seconds in ends), said(machines, folder)
    left = record(folder)
    assert (left["status"], left["exit_code"]) == ("failed", 1), said(machines, folder)
    assert "process 1 ended without an error message: it was killed (out of memory?)" in left["message"]


def _is_rank(pid: int) -> bool:
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return "-m" not in words and any(word.endswith("worker/train.py") for word in words)
