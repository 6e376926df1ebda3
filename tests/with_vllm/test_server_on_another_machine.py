"""A vLLM server in another network trains with the run as one beside it does, and a run that loses it can go on.

Where namespaces cannot be made both are in one network, and find each other in the same way.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.networks import Network, two_networks
from vllm_servers import environment

from grpo_recipes.contract.host.processes import descendants

pytestmark = [pytest.mark.vllm, pytest.mark.long]

QUICKSTART = Path(__file__).parents[2] / "recipes" / "quickstart"
TIMEOUT_S = 600
STEPS = 6
# Nobody listens there: whoever asks a proxy for the server gets no answer.
PROXY = {"http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
Here = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def machine() -> Iterator[Here]:
    """Starts launch.sh of a run folder on one of the machines."""
    started: list[subprocess.Popen[str]] = []

    def start(network: Network, folder: Path, *arguments: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [*network.prefix, "bash", str(folder / "launch.sh"), *arguments],
            env=environment(PYTHON=sys.executable, **PROXY),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with process:
            process.kill()


def _run_folder(folder: Path) -> Path:
    recipe = {
        "recipe": 1,
        "name": "apart",
        "model": {"model_name_or_path": str(QUICKSTART / "model")},
        "dataset": {
            "path": str(QUICKSTART / "train.jsonl"),
            "prompt": "{{ question }}",
            "columns": {"solution": "{{ answer }}"},
        },
        "rewards": [{"name": "exact_match"}],
        "generation": {
            "use_vllm": True,
            "vllm_mode": "server",
            "max_completion_length": 6,
            "vllm_max_model_length": 64,
            "vllm_engine": {"enforce_eager": True, "max_num_seqs": 16},
        },
        "grpo": {"num_generations": 4},
        "training": {"prompts_per_step": 4, "max_steps": STEPS, "learning_rate": 1e-4, "save_steps": 2},
        "launch": {"num_nodes": 2},
    }
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    # A CPU has no NCCL, through which TRL hands weights over; cpu_weights does it here.
    command = [sys.executable, "-m", "grpo_recipes.cli.main", str(path), "--accept", "GEN008", "--dry-run"]
    subprocess.run([*command, "--out", str(folder / "run")], env=environment(), check=True)
    return folder / "run"


def _record(folder: Path) -> dict[str, Any]:
    path = folder / "run.json"
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return content


@pytest.fixture
def networks() -> Iterator[tuple[Network, Network]]:
    """The trainer's and the server's."""
    with two_networks() as two:
        yield two


def test_a_run_whose_server_is_lost_goes_on_with_another(
    tmp_path: Path, networks: tuple[Network, Network], machine: Here
) -> None:
    there, apart = networks
    folder = _run_folder(tmp_path)
    trainer = machine(there, folder)
    server = machine(apart, folder, "--server", "--address", there.address)
    until = time.monotonic() + TIMEOUT_S
    while int(_record(folder).get("step") or 0) < 3:
        assert trainer.poll() is None and time.monotonic() < until, trainer.communicate(timeout=5)[0][-4000:]
        time.sleep(0.1)
    vllm = next(each for each in descendants(server.pid) if "vllm.entrypoints.cli.main" in each.argv)
    os.kill(vllm.pid, signal.SIGKILL)
    told, said = (process.communicate(timeout=TIMEOUT_S)[0] for process in (trainer, server))
    record = _record(folder)
    assert (trainer.returncode, server.returncode) == (75, 75), told + said
    assert record["status"] == "interrupted"
    assert record["message"] == "the vLLM server was killed by signal 9 while the run still needed it"
    assert record["message"] in told and record["message"] in said

    server = machine(apart, folder, "--server", "--address", there.address)
    trainer = machine(there, folder, "--resume")
    told, said = (process.communicate(timeout=TIMEOUT_S)[0] for process in (trainer, server))
    assert (trainer.returncode, server.returncode) == (0, 0), told + said
    record = _record(folder)
    assert (record["status"], record["step"]) == ("completed", STEPS)
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [event["step"] for event in events if event["event"] == "step"] == list(range(1, STEPS + 1))
    assert "weights reach vLLM" in told
