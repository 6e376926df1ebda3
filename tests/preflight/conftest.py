"""Runs `grpo-run preflight` on small data with the quickstart's model."""

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from preflight_runs import Answer, command

from grpo_recipes.cli.main import main


@pytest.fixture
def preflight(
    tmp_path: Path, warm_python: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Answer]:
    """Calls the command in this process; what it tries, it tries in a process of its own as always."""

    def run(*arguments: str) -> Answer:
        words, environment = command(tmp_path, *arguments)
        with monkeypatch.context() as changed, pytest.raises(SystemExit) as ended:
            for name, value in environment.items():
                changed.setenv(name, value)
            changed.setattr(sys, "executable", str(warm_python / "python"))
            changed.setattr(tempfile, "tempdir", None)
            changed.chdir(tmp_path)
            main(words[3:])
        captured = capfd.readouterr()
        return Answer(int(ended.value.code or 0), captured.out, captured.err, os.listdir(tmp_path / "tmp"))

    return run


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    """Forty rows in the quickstart's format."""
    path = tmp_path / "sums.jsonl"
    rows = [{"question": f"{10 + i}+{20 + i}=", "answer": str(30 + 2 * i)} for i in range(40)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
