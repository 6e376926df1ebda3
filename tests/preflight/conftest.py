"""Runs `grpo-run preflight` as a user does, on small data with the quickstart's model."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from preflight_runs import Answer, command


@pytest.fixture
def preflight(tmp_path: Path, warm_python: Path) -> Callable[..., Answer]:
    def run(*arguments: str) -> Answer:
        words, environment = command(tmp_path, *arguments, python=str(warm_python / "python"))
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=300)
        return Answer(done.returncode, done.stdout, done.stderr, os.listdir(tmp_path / "tmp"))

    return run


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    """Forty rows in the quickstart's format."""
    path = tmp_path / "sums.jsonl"
    rows = [{"question": f"{10 + i}+{20 + i}=", "answer": str(30 + 2 * i)} for i in range(40)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
