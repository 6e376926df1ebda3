"""What may be too small for NCCL is told before a run needs it."""

import os
import resource
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from grpo_recipes.contract.host import child_environment

INSIDE = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=64m small /dev/shm && exec "$@"', "sh"]
ASKED = "from grpo_recipes.contract.host.child_environment import *; print([one.message for one in small_for_nccl()])"


@pytest.mark.processes
def test_the_shared_memory_of_docker_is_too_small() -> None:
    if subprocess.run([*INSIDE, "true"], capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    said = subprocess.run([*INSIDE, sys.executable, "-c", ASKED], capture_output=True, text=True, check=True).stdout
    assert "/dev/shm has 64 MiB free, which may be too little for NCCL between GPUs" in said


@pytest.mark.parametrize(
    ("locked", "has_infiniband", "count"),
    [(8 << 20, True, 1), (8 << 20, False, 0), (resource.RLIM_INFINITY, True, 0)],
)
def test_locked_memory_counts_where_there_is_infiniband(
    locked: int, has_infiniband: bool, count: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(child_environment, "_SHARED", str(tmp_path / "none"))
    monkeypatch.setattr(child_environment, "_INFINIBAND", str(tmp_path if has_infiniband else tmp_path / "none"))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (locked, locked))
    found = child_environment.small_for_nccl()
    assert [one.message for one in found] == [
        "a process may lock 8192 KiB, which may be too little for NCCL over InfiniBand"
    ][:count]


@pytest.mark.parametrize(("blocks", "count"), [(0, 0), (16, 1)])
def test_shared_memory_without_a_limit_is_not_too_small(
    blocks: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_environment, "_INFINIBAND", os.devnull + "/none")
    found = Mock(f_blocks=blocks, f_bavail=0, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda _: found)
    assert len(child_environment.small_for_nccl()) == count


def test_a_machine_without_shared_memory_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_environment, "_SHARED", os.devnull + "/none")
    monkeypatch.setattr(child_environment, "_INFINIBAND", os.devnull + "/none")
    assert child_environment.small_for_nccl() == []
