"""A tiny model, its data, plans for it, and run folders as the launcher makes them."""

import fcntl
import functools
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import worker_runs
from support.tiny_models import write_tiny_model
from support.tool_model import write_tool_model
from worker_runs import Changes, Trained, environment, plan_of, planned_data, record

from grpo_recipes.render.run_folder import archive_modules

PACKAGE = Path(__file__).resolve().parents[2] / "grpo_recipes"


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model and its tokenizer."""
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def tool_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model that calls its tool, which is taught once for all test processes."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with (shared / "teaching").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "tool_model").exists():
            write_tool_model(own / "taught").rename(shared / "tool_model")
    return shared / "tool_model"


@pytest.fixture(scope="session")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A .jsonl file of 64 sums of different lengths."""
    path = tmp_path_factory.mktemp("data") / "sums.jsonl"
    rows = [{"question": f"{a}+{a * b}=", "answer": str(a + a * b)} for a in range(3, 19) for b in range(2, 6)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="session")
def make_plan(tiny_model: Path, sums: Path) -> Callable[..., Changes]:
    """Plans for the tiny model: full, "lora" or "nf4", with changes to GRPOConfig and to the sections."""

    return functools.partial(plan_of, tiny_model, sums)


@pytest.fixture(scope="session")
def held_out(sums: Path) -> Callable[..., Changes]:
    """A plan's evaluation section over the first 11 sums, with changes."""

    def make(**changes: Any) -> Changes:
        return {
            "data": planned_data(sums, max_rows=11),
            "at_start": True,
            "every_steps": 0,
            "greedy": True,
            "batch_size": 4,
            "sampling": {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0},
            "max_prompt_length": None,
            "samples": 1,
            "pass_at": [],
            "passes": None,
            "keep_best": False,
            "stop_after": None,
            "generated_by": "transformers",
            "name": "",
            "rewards": [],
            "others": [],
            **changes,
        }

    return make


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Run folders as the launcher makes them: plan.json and the copied worker, with a user's reward files."""

    def make(plan: Changes, name: str = "run", user: dict[str, str] | None = None) -> Path:
        folder = tmp_path / name
        (folder / "worker").mkdir(parents=True)
        (folder / "worker" / "grpo_recipes.zip").write_bytes(archive_modules(PACKAGE))
        shutil.copy(PACKAGE / "worker" / "train.py", folder / "worker")
        (folder / "worker" / "user").mkdir()
        for file, text in (user or {}).items():
            (folder / "worker" / "user" / file).write_text(text)
        (folder / "plan.json").write_text(json.dumps(plan))
        return folder

    return make


@pytest.fixture(scope="session")
def sha256_of_text() -> Callable[[str], str]:
    """A plan's digest for a reward file with this text."""
    return lambda text: hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture(scope="session")
def trained(warm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Trained]]:
    """Trains a plan in a fork of a process that has the libraries, with a fault and a user's reward files."""
    errors = (tmp_path_factory.mktemp("server") / "stderr.txt").open("w")
    program = Path(__file__).with_name("in_broken_trainer.py")
    server = subprocess.Popen(
        [str(warm_python / "python"), "-Xwarm", str(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env=environment(PYTHONPATH=str(PACKAGE.parent), TOKENIZERS_PARALLELISM="false"),
    )
    assert server.stdin is not None and server.stdout is not None

    def run(plan: Changes, fault: str = "nothing", *, user: dict[str, str] | None = None, **request: Any) -> Trained:
        folder = Path(request.pop("folder", None) or tmp_path_factory.mktemp("run"))
        (folder / "plan.json").write_text(json.dumps(plan))
        (folder / "worker" / "user").mkdir(parents=True, exist_ok=True)
        for file, text in (user or {}).items():
            (folder / "worker" / "user" / file).write_text(text)
        server.stdin.write(json.dumps({"folder": str(folder), "fault": fault, **request}) + os.linesep)
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        return Trained(**answer, record=record(folder), folder=folder)

    yield run
    server.stdin.close()
    server.wait(timeout=180)


@pytest.fixture
def stub_plan() -> Changes:
    """A plan whose model and data do not exist, for failures before either is needed."""
    return plan_of(Path("/nonexistent"), Path("/nonexistent"))


@pytest.fixture
def warm(warm_python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forks workers from a process with the libraries, in tests that are not about starting processes."""
    monkeypatch.setattr(worker_runs, "PYTHON", str(warm_python / "python"))
