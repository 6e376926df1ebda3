"""OpenRewardSpec trains against a real OpenReward server as in a TRL script; HarborSpec says what it lacks here.

No sandbox of Harbor's is started: that needs a Docker daemon or a paid service. What comes before it is tested in
Harbor's own Python, with the installed package.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from services import ROOT, is_made, python_of
from support.tool_model import write_tool_model

pytestmark = pytest.mark.stack
has_openreward = pytest.mark.skipif(not is_made("openreward"), reason="make test-openreward makes its environment")
has_harbor = pytest.mark.skipif(not is_made("harbor"), reason="make test-openreward HARBOR=yes makes its environment")
HERE = Path(__file__).parent
FIGURES = ("loss", "grad_norm", "reward", "completions/mean_length", "tools/call_frequency")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model, and the packages of OpenReward behind those of this Python."""
    made = tmp_path_factory.mktemp("openreward")
    write_tool_model(made / "model")
    (made / "behind").mkdir()
    places = [str(place) for place in (python_of("openreward").parents[1] / "lib").glob("python*/site-packages")]
    (made / "behind" / "sitecustomize.py").write_text(f"import sys\n\nsys.path += {places}\n")
    return made


@contextmanager
def serving(port: int, *words: str) -> Iterator[None]:
    """The server of sums."""
    server = subprocess.Popen(
        [python_of("openreward"), HERE / "sums_server.py", str(port), *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while True:
            assert server.poll() is None, "the server ended"
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/list_environments", timeout=5).close()
                break
            except OSError:
                time.sleep(0.2)
        yield
    finally:
        server.terminate()
        server.wait(timeout=30)


@pytest.fixture(scope="module")
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def recipe_of(folder: Path, port: int, **changes: Any) -> Path:
    recipe = {
        "recipe": 1,
        "name": "sums",
        "seed": 7,
        "model": {"model_name_or_path": "./model", "dtype": "float32"},
        "environment": {
            "python": "trl.experimental.openreward:OpenRewardSpec",
            "config": {"target": f"http://127.0.0.1:{port}"},
        },
        "evaluation": {"split": "test", "max_rows": 4},
        "generation": {"max_completion_length": 48, "max_tool_calling_iterations": 3},
        "grpo": {"num_generations": 8},
        "training": {
            "prompts_per_step": 2,
            "max_steps": 4,
            "learning_rate": 3e-3,
            "bf16": False,
            "gradient_checkpointing": False,
        },
        **changes,
    }
    path = folder / "recipe.yaml"
    path.write_text(json.dumps(recipe))
    return path


@pytest.fixture(scope="module")
def said(folder: Path, port: int) -> Callable[..., tuple[int, str]]:
    """What a program says in the folder, and its exit code."""

    def run(*words: str, with_package: bool = True, at: Path = folder) -> tuple[int, str]:
        command = words if words[0].endswith(".py") else ("-m", "grpo_recipes.cli.main", *words)
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        places = [str(ROOT), *([str(folder / "behind")] if with_package else [])]
        own = {
            "PYTHONPATH": os.pathsep.join(places),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "OPENREWARD_SESSION_URL": f"http://127.0.0.1:{port}",
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        done = subprocess.run(
            [sys.executable, *command], cwd=at, env=kept | own, capture_output=True, text=True, timeout=300
        )
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.fixture(scope="module")
def trained(folder: Path, port: int, said: Callable[..., tuple[int, str]]) -> Path:
    """A run, once its service was allowed."""
    recipe_of(folder, port)
    with serving(port):
        code, asked = said("recipe.yaml", "--out", "run")
        assert code == 2 and "which gets what the model calls, and the key of its service" in asked, asked
        digest = re.search(r"--allow-code ([0-9a-f]{64})", asked)
        assert digest is not None
        code, told = said("recipe.yaml", "--out", "run", "--allow-code", digest[1])
    assert code == 0, told
    return folder / "run"


def lines(run: Path, kind: str) -> list[dict[str, Any]]:
    each = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in each if line["event"] == kind]


@has_openreward
def test_steps_are_those_of_a_hand_written_script(
    trained: Path, folder: Path, port: int, said: Callable[..., tuple[int, str]]
) -> None:
    grpo = {
        "learning_rate": 3e-3,
        "max_steps": 4,
        "per_device_train_batch_size": 16,
        "num_generations": 8,
        "max_completion_length": 48,
        "max_tool_calling_iterations": 3,
        "seed": 7,
        "bf16": False,
        "gradient_checkpointing": False,
        "use_cpu": True,
        "logging_steps": 1,
        "report_to": "none",
        "save_strategy": "no",
    }
    settings = {"target": f"http://127.0.0.1:{port}", "model": str(folder / "model"), "grpo": grpo}
    (folder / "settings.json").write_text(json.dumps(settings))
    plan = json.loads((trained / "plan.json").read_text())
    assert plan["shims"].pop("less_padding"), "it rounds the loss and its gradient differently"
    shutil.copytree(trained / "worker", folder / "exact/worker")
    (folder / "exact/plan.json").write_text(json.dumps(plan))
    with serving(port):
        code, told = said(str(HERE / "hand_written_with_openreward.py"), "settings.json")
        assert code == 0, told
        code, output = said("worker/train.py", at=folder / "exact")
        assert code == 0, output
    by_trl = json.loads(next(line for line in told.splitlines() if line.startswith("STEPS"))[5:])
    own = lines(folder / "exact", "step")
    for step, expected in zip(own, by_trl, strict=True):
        assert [step[name] for name in FIGURES] == [expected[name] for name in FIGURES]
        assert step["rewards/OpenRewardSpec/mean"] == expected["rewards/_outcome_only_reward_func/mean"]
    assert [step["reward"] for step in lines(trained, "step")] == [step["reward"] for step in own]
    assert len({step["reward"] for step in own}) > 1


@has_openreward
def test_held_out_rows_are_tasks_of_their_own_split(trained: Path) -> None:
    rows = [json.loads(line) for line in (trained / "evaluation/step-4.jsonl").read_text().splitlines()]
    assert [row["prompt"] for row in rows] == ["40+80=", "40+120=", "40+160=", "40+200="]
    assert lines(trained, "evaluation")[-1]["count"] == 4


@has_openreward
def test_other_tasks_or_tools_of_the_service_are_another_experiment(
    trained: Path, port: int, said: Callable[..., tuple[int, str]]
) -> None:
    for words, key in ((("=+",), "dataset.fingerprint"), (("=", "Sums two numbers."), "environment.tools")):
        with serving(port, *words):
            code, told = said("./run", "--extend", "training.max_steps=6", "--out", f"longer-{key}")
        assert code == 3, told
        assert "the loaded data or model differs from the plan" in told and f"{key}: plan" in told, told


@has_openreward
@pytest.mark.usefixtures("trained")
def test_a_service_that_does_not_answer_is_named_before_a_model_is_loaded(
    folder: Path, said: Callable[..., tuple[int, str]]
) -> None:
    code, told = said("recipe.yaml", "--out", "silent")
    assert code == 3, told
    assert "environment OpenRewardSpec: its tasks cannot be read" in told
    assert "Cannot connect to host 127.0.0.1" in told
    assert "loading the model" not in (folder / "silent" / "train.log").read_text()


@has_openreward
@pytest.mark.usefixtures("trained")
def test_preflight_shows_the_tools_of_the_service(port: int, said: Callable[..., tuple[int, str]]) -> None:
    with serving(port):
        code, told = said("preflight", "recipe.yaml")
    assert code == 0, told
    assert "environment OpenRewardSpec, reset for 32 rows" in told
    assert "add(a=7, b=7) -> 14" in told
    code, told = said("preflight", "recipe.yaml")
    assert code != 0 and "its tasks cannot be read" in told, told


@pytest.mark.parametrize(
    ("target", "config", "says"),
    [
        ("openreward:OpenRewardSpec", {"target": "http://localhost:1"}, "openreward is not installed [TOL016]"),
        pytest.param(
            "harbor:HarborSpec",
            {"dataset": "owner/tasks"},
            "harbor needs Python 3.12 or newer [TOL016]",
            marks=pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python is new enough"),
        ),
    ],
)
def test_what_is_missing_is_named_by_validate(
    target: str, config: dict[str, str], says: str, folder: Path, said: Callable[..., tuple[int, str]]
) -> None:
    recipe_of(folder, 1, environment={"python": f"trl.experimental.{target}", "config": config}, evaluation=None)
    code, told = said("validate", "recipe.yaml", with_package=False)
    assert code != 0 and says in told, told


@has_harbor
def test_harbor_has_rows_and_tools_and_says_what_it_lacks(tmp_path: Path) -> None:
    task = tmp_path / "suite/tasks/one"
    for part in ("environment", "tests"):
        (task / part).mkdir(parents=True)
    (task / "instruction.md").write_text("Write 4 into /workdir/answer.txt\n")
    (task / "task.toml").write_text('version = "1.0"\n\n[metadata]\ngold_answer = "4"\n')
    (task / "environment/Dockerfile").write_text("FROM python:3.12\n")
    (task / "tests/test.sh").write_text("echo 1 > /logs/verifier/reward.txt\n")
    environment = {"PATH": "/nowhere", "HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [python_of("harbor"), HERE / "in_harbor.py", ROOT, tmp_path / "suite"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,  # an environment that is not closed keeps its process for ever
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert {name: found["row"][name] for name in ("prompt", "task", "gold_answer")} == {
        "prompt": [{"role": "user", "content": ""}],
        "task": "one",
        "gold_answer": "4",
    }
    assert "task_dir" not in found["row"] and len(found["row"]["task_sha256"]) == 64
    assert found["tools"] == ["bash", "get_reward", "reset"] and "Run a shell command" in found["told"]
    assert "pip install 'harbor[e2b]'" in found["reset"]
    assert found["without docker"][0] == "environment HarborSpec: its tasks cannot be read"
    assert "docker" in found["without docker"][1]
    assert found["without tasks"][0] == "environment HarborSpec: its tasks cannot be read"
