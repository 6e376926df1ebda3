"""Two machines, here two launchers on the loopback, train as one machine with as many processes does."""

import hashlib
import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from distributed_runs import LIMIT_S, PYTHON, RECIPE, Run, RunOf, environment, grpo_run, options

pytestmark = pytest.mark.stack

Machines = Callable[..., Run]


@pytest.fixture
def on_two_machines(tmp_path: Path) -> Iterator[Machines]:
    """Trains a strategy and a kind on two machines, with one folder, to its end."""
    started: list[subprocess.Popen[str]] = []

    def train(strategy: str, kind: str, processes: int = 2) -> Run:
        more = {"launch__num_nodes": 2, "launch__gpus_per_node": 0, "launch__num_processes": processes}
        words = [str(RECIPE), "--out", str(tmp_path / "two"), *options(strategy, kind, **more)]
        made = subprocess.run(
            [PYTHON[-1], "-m", "grpo_recipes.cli.main", *words],
            env=environment(tmp_path, strategy),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert made.returncode == 0, made.stderr
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        for line in made.stdout.splitlines():
            command = line.replace("ADDRESS", "127.0.0.1").replace("29500", str(port))
            log = (tmp_path / f"{len(started)}.log").open("w")
            start = {"stdout": log, "stderr": subprocess.STDOUT, "text": True, "env": environment(tmp_path, strategy)}
            started.append(subprocess.Popen(["bash", "-c", f"exec env {command}"], **start))
        codes = [process.wait(2 * LIMIT_S) for process in started]
        output = "\n".join((tmp_path / f"{node}.log").read_text() for node in range(len(started)))
        return Run(strategy, kind, tmp_path / "two", max(codes), 0.0, output)

    yield train
    for process in started:
        process.kill()
        process.wait()


def _weights(run: Run) -> str:
    assert run.exit_code == 0, run.output
    files = sorted((run.folder / "final").glob("*.safetensors"))
    assert files != []
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _world(run: Run) -> str:
    """What the proof of the processes saw."""
    proofs = json.loads((run.folder / "run.json").read_text())["proofs"]
    return next(str(proof["shown"]) for proof in proofs if proof["id"] == "PRF001")


def test_two_machines_train_the_same_weights_as_one(on_two_machines: Machines, run_of: RunOf) -> None:
    run = on_two_machines("ddp", "LoRA")
    assert _weights(run) == _weights(run_of("ddp", "LoRA"))
    assert _world(run) == "world 2/2"
    assert json.loads((run.folder / "plan.json").read_text())["world"]["num_nodes"] == 2
    assert run.output.count("step 3/3") == 1, run.output


@pytest.mark.distributed
@pytest.mark.parametrize(("strategy", "kind"), [("ddp", "full"), ("zero2", "LoRA"), ("zero3", "full")])
def test_so_do_full_training_and_shards(
    strategy: str, kind: str, on_two_machines: Machines, run_of: RunOf, tmp_path: Path
) -> None:
    run = on_two_machines(strategy, kind)
    assert _weights(run) == _weights(run_of(strategy, kind))
    assert list((tmp_path / "extensions").rglob("*.so")) == [], "nothing was compiled"


@pytest.mark.distributed
def test_two_processes_on_each_of_two_machines_are_four(on_two_machines: Machines, tmp_path: Path) -> None:
    (tmp_path / "four").mkdir()
    four = grpo_run("ddp", "LoRA", tmp_path / "four", launch__num_processes=4)
    run = on_two_machines("ddp", "LoRA", 4)
    assert _weights(run) == _weights(four)
    assert _world(run) == "world 4/4"
