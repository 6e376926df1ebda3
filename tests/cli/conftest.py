"""`grpo-run` in this process, in tests that are not about starting it."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def warm_run(
    tmp_path: Path, warm_python: Path, grpo_run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """Runs the command in an empty folder, with workers that a process with the libraries forks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(sys, "executable", str(warm_python / "python"))
    return grpo_run
