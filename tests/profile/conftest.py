"""Runs `grpo-run profile` as a user does, with the quickstart's model on a test's rows."""

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from profile_runs import COMMAND, FEW, QUICKSTART, ROOT, Answer


@pytest.fixture
def profile(tmp_path: Path, warm_python: Path) -> Callable[..., Answer]:
    """Runs the command with a test's arguments, in its folder, whose code is allowed. rows: the data, sums.jsonl."""

    def run(
        *words: object,
        rows: str | None = "sums.jsonl",
        python: Path | None = None,
        recipe: Path = QUICKSTART,
        **values: object,
    ) -> Answer:
        shas = [hashlib.sha256(file.read_bytes()).hexdigest() for file in tmp_path.glob("*.py")]
        allowed = [word for sha in shas for word in ("--allow-code", sha)]
        data = {} if rows is None else {"dataset.path": str(tmp_path / rows)}
        given = {**data, "evaluation.path": None, **values}
        options = [word for key, value in given.items() for word in ("--set", f"{key}={json.dumps(value)}")]
        environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [python or warm_python / "python", *COMMAND, recipe, *map(str, words), *allowed, *options],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env=environment | {"XDG_CONFIG_HOME": str(tmp_path / "config")},
            timeout=300,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    """The first rows of the quickstart."""
    path = tmp_path / "sums.jsonl"
    lines = (QUICKSTART.parent / "quickstart" / "train.jsonl").read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:FEW]))
    return path
