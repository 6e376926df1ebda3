"""Signals through accelerate's real launcher, which is torchrun: two processes get time to save."""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from launched_programs import PRELUDE
from support.processes import marked, wait_until

from grpo_recipes.contract.run_record import read_record

pytestmark = pytest.mark.stack

GrpoRun = Callable[[Path], "subprocess.Popen[str]"]
ACCELERATE_YAML = """
compute_environment: LOCAL_MACHINE
distributed_type: MULTI_GPU
num_machines: 1
num_processes: 2
machine_rank: 0
main_process_port: 0
use_cpu: true
mixed_precision: "no"
"""
LAUNCH_SH = """#!/usr/bin/env bash
cd "$(dirname "${BASH_SOURCE[0]}")"
export OMP_NUM_THREADS=1
exec "$PYTHON" -m accelerate.commands.launch --config_file accelerate.yaml worker/train.py
"""
SAVING = """
rank = os.environ["LOCAL_RANK"]
got = []
signal.signal(signal.SIGTERM, lambda *_: got.append("TERM"))
note(f"ready{rank}", os.getpid())
while not got: time.sleep(0.02)
for _ in range(20): time.sleep(0.1)
note(f"saved{rank}", " ".join(got))
if rank == "0": record(status="interrupted", exit_code=75, step=5)
sys.exit(75)
"""
DEAF = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
note("ready" + os.environ["LOCAL_RANK"])
time.sleep(600)
"""
CRASHING = """
if os.environ["LOCAL_RANK"] == "1": os.kill(os.getpid(), signal.SIGKILL)
got = []
signal.signal(signal.SIGTERM, lambda *_: got.append("TERM"))
while not got: time.sleep(0.02)
record(status="interrupted", exit_code=75, step=5)
sys.exit(75)
"""


def make(folder: Path, trainer: str) -> Path:
    (folder / "worker").mkdir()
    (folder / "worker" / "train.py").write_text(PRELUDE + trainer)
    (folder / "accelerate.yaml").write_text(ACCELERATE_YAML)
    (folder / "launch.sh").write_text(LAUNCH_SH)
    return folder


def wait_for_ranks(folder: Path) -> None:
    wait_until(lambda: (folder / "ready0").exists() and (folder / "ready1").exists(), timeout_s=120)


def test_both_ranks_save_before_the_launcher_ends_them(tmp_path: Path, grpo_run: GrpoRun) -> None:
    folder = make(tmp_path, SAVING)
    process = grpo_run(folder)
    wait_for_ranks(folder)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=180)
    assert process.returncode == 75
    assert {(folder / f"saved{rank}").read_text().split()[0] for rank in (0, 1)} == {"TERM"}


@pytest.mark.long
def test_a_second_signal_leaves_no_rank_behind(tmp_path: Path, grpo_run: GrpoRun) -> None:
    folder = make(tmp_path, DEAF)
    process = grpo_run(folder)
    wait_for_ranks(folder)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
    process.communicate(timeout=180)
    assert process.returncode == 75


@pytest.mark.long
def test_no_rank_outlives_a_killed_grpo_run(tmp_path: Path, grpo_run: GrpoRun, mark: str) -> None:
    folder = make(tmp_path, DEAF)
    process = grpo_run(folder)
    wait_for_ranks(folder)
    process.kill()
    process.communicate(timeout=180)
    wait_until(lambda: marked(mark) == [], timeout_s=10)


def test_a_killed_rank_is_a_failure_though_the_other_says_interrupted(tmp_path: Path, grpo_run: GrpoRun) -> None:
    folder = make(tmp_path, CRASHING)
    process = grpo_run(folder)
    process.communicate(timeout=180)
    assert process.returncode == 1
    record = read_record(str(folder))
    assert record is not None
    assert record.status == "failed"
    assert record.message == "the worker ended without a message: rank 1 was killed by SIGKILL (out of memory?)"
