"""The caches of the libraries that a user cannot write: which, and what moves each."""

import errno
import os
from pathlib import Path

import pytest
from support.plans import small_plan

from grpo_recipes.contract.host.child_environment import OF_THE_HUB, OF_VLLM, find_locked_caches
from grpo_recipes.contract.plan_machine import World
from grpo_recipes.contract.plan_sections import Vllm
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker._shared.same_folder import SameFolder
from grpo_recipes.worker.run import refuse_locked_caches
from grpo_recipes.worker.survival.folder_faults import explain_fault


@pytest.fixture
def no_folder(tmp_path: Path) -> str:
    """A place in which not even root can make a folder."""
    file = tmp_path / "file"
    file.touch()
    return str(file)


def test_a_cache_that_can_be_made_is_no_finding(tmp_path: Path) -> None:
    assert find_locked_caches({"HOME": str(tmp_path / "new")}, (*OF_VLLM, *OF_THE_HUB), "error") is None


def test_each_locked_cache_is_named_with_its_variable(no_folder: str, tmp_path: Path) -> None:
    found = find_locked_caches({"HOME": no_folder}, OF_VLLM, "error")
    assert found is not None and found.severity == "error"
    assert found.because == (
        f"vllm: {no_folder}/.cache/vllm",
        f"flashinfer: {no_folder}/.cache/flashinfer",
        f"triton: {no_folder}/.triton/cache",
    )
    variables = ("VLLM_CACHE_ROOT", "FLASHINFER_WORKSPACE_BASE", "TRITON_CACHE_DIR")
    assert str(found.fix).endswith(f"or {', '.join(variables)}")
    moved = dict.fromkeys(variables, str(tmp_path))
    assert find_locked_caches({"HOME": no_folder, **moved}, OF_VLLM, "error") is None


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    found = find_locked_caches(
        {"XDG_CACHE_HOME": str(tmp_path), "FLASHINFER_WORKSPACE_BASE": str(tmp_path)}, OF_VLLM, "error"
    )
    assert found is not None
    assert found.because == (f"flashinfer: {tmp_path}/.cache/flashinfer", "triton: ~/.triton/cache")


def test_a_run_with_vllm_on_a_gpu_ends_before_anything_is_loaded(
    no_folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CACHE_HOME", "VLLM_CACHE_ROOT", "FLASHINFER_WORKSPACE_BASE", "TRITON_CACHE_DIR", "TRITON_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", no_folder)
    on_a_gpu = World("local", 1, 1, "cuda", "single")
    refuse_locked_caches(small_plan(on_a_gpu))
    refuse_locked_caches(small_plan(vllm=Vllm("colocate", "bfloat16")))
    refuse_locked_caches(small_plan(on_a_gpu, vllm=Vllm("server", "bfloat16")))
    with pytest.raises(Refused, match="caches that this user cannot write: 3"):
        refuse_locked_caches(small_plan(on_a_gpu, vllm=Vllm("colocate", "bfloat16")))


def test_a_download_into_a_locked_cache_names_the_variable(no_folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", no_folder)
    problem = OSError("Check cache directory permissions")
    problem.__cause__ = PermissionError(errno.EACCES, "Permission denied", f"{no_folder}/hub")
    run = Path(no_folder).parent / "run"
    run.mkdir()
    assert "HF_HOME" in str(explain_fault(problem, SameFolder(run)))
