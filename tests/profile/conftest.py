"""Runs `grpo-run profile` as a user does, with the quickstart's model on a test's rows."""

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from profile_runs import FEW, QUICKSTART, Answer

from grpo_recipes.cli.main import main


@pytest.fixture
def command(
    tmp_path: Path, warm_python: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Answer]:
    """Calls grpo-run in this process, in a test's folder; what it starts are processes of their own as always."""

    def run(*words: object) -> Answer:
        with monkeypatch.context() as changed, pytest.raises(SystemExit) as ended:
            changed.setenv("HF_HUB_OFFLINE", "1")
            changed.setenv("OMP_NUM_THREADS", "1")
            changed.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
            changed.setattr(sys, "executable", str(warm_python / "python"))
            changed.chdir(tmp_path)
            main([*map(str, words)])
        captured = capfd.readouterr()
        return Answer(int(ended.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def profile(tmp_path: Path, command: Callable[..., Answer]) -> Callable[..., Answer]:
    """Runs the command with a test's arguments, in its folder, whose code is allowed. rows: the data, sums.jsonl."""

    def run(
        *words: object,
        rows: str | None = "sums.jsonl",
        recipe: Path = QUICKSTART,
        **values: object,
    ) -> Answer:
        shas = [hashlib.sha256(file.read_bytes()).hexdigest() for file in tmp_path.glob("*.py")]
        allowed = [word for sha in shas for word in ("--allow-code", sha)]
        data = {} if rows is None else {"dataset.path": str(tmp_path / rows)}
        given = {**data, "evaluation.path": None, **values}
        options = [word for key, value in given.items() for word in ("--set", f"{key}={json.dumps(value)}")]
        return command("profile", recipe, *words, *allowed, *options)

    return run


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    """The first rows of the quickstart."""
    path = tmp_path / "sums.jsonl"
    lines = (QUICKSTART.parent / "quickstart" / "train.jsonl").read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:FEW]))
    return path
