"""Small runs as a user starts them, each from the one before."""

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stage_runs import FIRST, Command, Run


@pytest.fixture(scope="session")
def command(warm_python: Path) -> Command:
    """grpo-run in this process, which forks workers from a Python that has the libraries imported."""
    from grpo_recipes.cli.main import main

    def run(*arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, contextlib.chdir(cwd), pytest.raises(SystemExit) as ended:
            patch.setattr(sys, "executable", str(warm_python / "python"))
            patch.setenv("OMP_NUM_THREADS", "1")
            patch.setenv("HF_HUB_OFFLINE", "1")
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                main(list(arguments))
        return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), out.getvalue(), err.getvalue())

    return run


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with all recipes and runs."""
    return tmp_path_factory.mktemp("stages")


@pytest.fixture(scope="session")
def staged(command: Command, place: Path) -> Callable[..., Run]:
    """Trains the first recipe with changes, which refer to earlier runs by folder."""

    def run(name: str, **changes: Any) -> Run:
        recipe = {**FIRST, "name": name, **changes}
        (place / f"{name}.yaml").write_text(json.dumps(recipe))
        done = command(f"{name}.yaml", "--out", name, cwd=place)
        return Run(done.returncode, done.stdout + done.stderr, place / name)

    return run


@pytest.fixture(scope="session")
def first(staged: Callable[..., Run]) -> Run:
    """A finished run with an adapter."""
    run = staged("first")
    assert run.code == 0, run.said
    return run


@pytest.fixture(scope="session")
def second(staged: Callable[..., Run], first: Run) -> Run:
    """A run that continues with that adapter, with a penalty."""
    run = staged("second", model={"from_run": "./first"}, lora={"continue": True}, grpo={**FIRST["grpo"], "beta": 0.05})  # type: ignore[dict-item]
    assert run.code == 0, run.said
    return run


@pytest.fixture(scope="session")
def third(staged: Callable[..., Run], second: Run) -> Run:
    """A run that trains all weights of the second one's merged model, with a penalty."""
    run = staged("third", model={"from_run": "./second"}, lora=None, grpo={**FIRST["grpo"], "beta": 0.05})  # type: ignore[dict-item]
    assert run.code == 0, run.said
    return run
