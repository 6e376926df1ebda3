"""What a run does when its vLLM server dies, does not come, or is another one; and what is left when the run dies."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from digit_first import APART
from small_models import write_chains
from vllm_servers import environment, serving

from grpo_recipes.contract.host.processes import Process, descendants

pytestmark = pytest.mark.vllm

QUICKSTART = Path(__file__).parents[2] / "recipes" / "quickstart"
TIMEOUT_S = 600
# A CPU has no NCCL, through which TRL hands weights over; cpu_weights does it here.
ACCEPTED = ("--accept", "GEN008")
GONE_S = 15
Started = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def grpo_run(tmp_path: Path) -> Iterator[Started]:
    """Starts `grpo-run` on a recipe as a user does; the run folder is tmp_path/run."""
    started: list[subprocess.Popen[str]] = []

    def start(*more: str, **changes: Any) -> "subprocess.Popen[str]":
        recipe = tmp_path / "recipe.yaml"
        recipe.write_text(yaml.safe_dump(_recipe(**changes)), encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "grpo_recipes.cli.main",
            str(recipe),
            *ACCEPTED,
            *more,
            "--out",
            str(tmp_path / "run"),
        ]
        process = subprocess.Popen(
            command, env=environment(), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


GENERATION = {
    "use_vllm": True,
    "vllm_mode": "server",
    "max_completion_length": 6,
    "vllm_max_model_length": 64,
    "vllm_engine": {"enforce_eager": True, "max_num_seqs": 16},
}


def _recipe(**changes: Any) -> dict[str, Any]:
    """A run of the quickstart's model beside a server of its own; changes replace whole sections."""
    return {
        "recipe": 1,
        "name": "faults",
        "model": {"model_name_or_path": str(QUICKSTART / "model")},
        "dataset": {
            "path": str(QUICKSTART / "train.jsonl"),
            "prompt": "{{ question }}",
            "columns": {"solution": "{{ answer }}"},
        },
        "rewards": [{"name": "exact_match"}],
        "generation": GENERATION,
        "grpo": {"num_generations": 4},
        "training": {"prompts_per_step": 4, "max_steps": 40, "learning_rate": 1e-4, "save_steps": 2},
        **changes,
    }


def _record(folder: Path) -> dict[str, Any]:
    path = folder / "run" / "run.json"
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return content


def _step(folder: Path) -> int:
    return int(_record(folder).get("step") or 0)


def _wait(process: "subprocess.Popen[str]", condition: Callable[[], object]) -> None:
    until = time.monotonic() + TIMEOUT_S
    while not condition():
        assert process.poll() is None, process.communicate()[1][-4000:]
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.2)


def _is_server(process: Process) -> bool:
    return "vllm.entrypoints.cli.main" in process.argv


def _are_alive(pids: list[int]) -> bool:
    def is_alive(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    return any(is_alive(pid) for pid in pids)


KILLED = {
    "all weights": {"tokenizer": {"add_tokens": ["<search>"]}},
    "an adapter": {
        "lora": {"r": 16, "lora_alpha": 64, "target_modules": "all-linear"},
        "generation": GENERATION | {"weight_sync": "adapter"},
    },
}


@pytest.mark.long
@pytest.mark.parametrize("changes", KILLED.values(), ids=KILLED)
def test_a_run_goes_on_from_its_checkpoint_after_its_server_was_killed(
    changes: dict[str, Any], grpo_run: Started, tmp_path: Path
) -> None:
    process = grpo_run(**changes)
    _wait(process, lambda: _step(tmp_path) >= 3)
    below = descendants(process.pid)
    server = next(one for one in below if _is_server(one))
    engine = [one.pid for one in descendants(server.pid)]
    os.kill(server.pid, signal.SIGKILL)
    _, told = process.communicate(timeout=TIMEOUT_S)
    record = _record(tmp_path)
    assert (process.returncode, record["status"], record["step"]) == (0, "completed", 40), told[-4000:]
    assert [death["how"] for death in record["vllm_server"]["restarts"]] == ["was killed by signal 9"]
    assert "restarting server and trainer, 1 of 2" in told
    assert engine and not _are_alive(engine)
    events = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    steps = [event for event in events if event["event"] == "step"]
    assert [step["step"] for step in steps] == list(range(1, 41))  # gone on, none missing and none twice
    assert max(step[APART] for step in steps) < 1e-5
    assert [event["state"] for event in events if event["event"] == "server"] == [
        "starting",
        "up",
        "died",
        "starting",
        "up",
    ]


@pytest.mark.long
def test_nothing_of_a_run_is_left_15_seconds_after_it_was_killed(grpo_run: Started, tmp_path: Path) -> None:
    process = grpo_run()
    _wait(process, lambda: _step(tmp_path) >= 1)
    below = [one.pid for one in descendants(process.pid)]
    assert any(_is_server(one) for one in descendants(process.pid))
    os.kill(process.pid, signal.SIGKILL)
    killed = time.monotonic()
    while _are_alive(below) and time.monotonic() < killed + GONE_S:
        time.sleep(0.2)
    assert not _are_alive(below)


def test_a_taken_port_is_named_with_who_has_it(grpo_run: Started, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        process = grpo_run(vllm_server={"port": port})
        _, told = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert f"port {port} of the vLLM server is taken" in _record(tmp_path)["message"]
    assert f"process {os.getpid()} (" in told


@pytest.mark.long
def test_a_server_that_is_not_up_in_time_ends_the_run(grpo_run: Started, tmp_path: Path) -> None:
    process = grpo_run(vllm_server={"startup_timeout": 3})
    _, told = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1, told
    assert "was not up after 3 seconds" in _record(tmp_path)["message"]


def test_a_server_that_ends_at_its_start_is_shown_with_its_reason(grpo_run: Started, tmp_path: Path) -> None:
    generation = _recipe()["generation"] | {"vllm_max_model_length": 100_000}
    process = grpo_run("--accept", "GEN009", generation=generation)
    _, told = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1, told
    message = _record(tmp_path)["message"]
    assert "the vLLM server ended with exit code 1 before it was up" in message
    assert "max_model_len (100000) is greater than" in message
    assert message.splitlines()[0] in told


@pytest.mark.long
def test_a_server_of_somebody_else_with_another_model_is_refused(grpo_run: Started, tmp_path: Path) -> None:
    other = write_chains(tmp_path / "other", [])
    with serving(other, tmp_path / "other.log", "--max-model-len", "64") as url:
        process = grpo_run(trl={"vllm_server_base_url": url})
        _, told = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 3, told
    message = _record(tmp_path)["message"]
    assert f"serves {other}, the run trains {QUICKSTART / 'model'}" in message
    assert "hidden_size is" in message or "num_hidden_layers is" in message
