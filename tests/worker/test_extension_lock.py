"""A run that offloads does not wait for a lock that a killed compilation left."""

import json
import os
from pathlib import Path

import pytest

from grpo_recipes.worker._shared.inputs import Refused
from grpo_recipes.worker.survival.extension_lock import refuse_stale_lock


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock in a private folder of extensions, held by nobody."""
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "extensions"))
    path = tmp_path / "extensions" / "cpu_adam" / "lock"
    path.parent.mkdir(parents=True)
    path.touch()
    return path


def _run_folder(tmp_path: Path, device: str) -> Path:
    content = {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": device}}}
    (tmp_path / "deepspeed.json").write_text(json.dumps(content))
    return tmp_path


def test_a_run_that_compiles_nothing_is_let_go(lock: Path, tmp_path: Path) -> None:
    refuse_stale_lock(tmp_path)
    refuse_stale_lock(_run_folder(tmp_path, "none"))


def test_a_lock_that_a_live_process_holds_is_waited_for(lock: Path, tmp_path: Path) -> None:
    held = os.open(lock, os.O_RDONLY)
    refuse_stale_lock(_run_folder(tmp_path, "cpu"))
    os.close(held)


def test_a_lock_that_nobody_holds_stops_the_run_and_is_named(lock: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=f"rm {lock}"):
        refuse_stale_lock(_run_folder(tmp_path, "cpu"))


def test_no_lock_is_no_reason_to_stop(lock: Path, tmp_path: Path) -> None:
    lock.unlink()
    refuse_stale_lock(_run_folder(tmp_path, "cpu"))
