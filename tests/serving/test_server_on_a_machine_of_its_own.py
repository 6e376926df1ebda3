"""A server on one machine and trainers on another find each other in the run folder, and each sees the other's end."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from serving_programs import (
    plan_with_server,
    planned_server,
    run_on_two_machines,
    server_pids,
)
from support.networks import two_networks
from support.processes import marked, wait_until

from grpo_recipes.contract.plan_machine import World
from grpo_recipes.worker.serving import other_machine
from grpo_recipes.worker.serving.health import ServerProblem, address_towards
from grpo_recipes.worker.serving.other_machine import Notice, read_notice, write_notice

Machine = Callable[..., "subprocess.Popen[str]"]
SERVER = ("serve.py", "--alone", "127.0.0.1")
ENDS = "return False\n"
# As a trainer does whose next generation fails; a file of the test lets it end.
ASKS = """
(folder / "asks").touch()
while not (folder / "enough").exists():
    time.sleep(0.05)
    ask()
return False
"""


def record(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return content


def state(folder: Path) -> str | None:
    notice = read_notice(folder)
    return None if notice is None else notice.state


def up(folder: Path, machine: Machine) -> "subprocess.Popen[str]":
    """A server that is up."""
    server = machine(folder, *SERVER)
    wait_until(lambda: state(folder) == "up")
    return server


def test_trainers_wait_for_it_and_it_ends_with_the_training(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "example.org")
    folder = run_on_two_machines(tmp_path / "run", ENDS, "--after", "0.5")
    trainer = machine(folder, "train.py")
    server = machine(folder, *SERVER)
    assert trainer.wait(180) == 0, trainer.communicate()
    told, _ = server.communicate(timeout=180)
    assert (server.returncode, state(folder)) == (0, "done"), told
    notice = read_notice(folder)
    assert notice is not None
    assert json.loads((folder / "told").read_text()) == {
        "GRPO_RUN_VLLM_URL": notice.url,
        "VLLM_HOST_IP": "127.0.0.1",
        "NO_PROXY": "example.org,127.0.0.1",
    }
    assert (record(folder)["status"], record(folder)["exit_code"]) == ("completed", 0)
    assert "the training has ended, and the vLLM server stops" in told


def test_it_listens_where_it_faces_the_trainers(tmp_path: Path, machine: Machine) -> None:
    folder = run_on_two_machines(tmp_path / "run", ENDS)
    with two_networks() as (there, apart):
        server = machine(folder, "serve.py", "--alone", there.address, network=apart)
        trainer = machine(folder, "train.py", network=there)
        told, _ = trainer.communicate(timeout=180)
        assert (trainer.returncode, server.wait(180)) == (0, 0), told
    given = json.loads((folder / "told").read_text())
    assert given["GRPO_RUN_VLLM_URL"].startswith(f"http://{apart.address}:")
    assert given["VLLM_HOST_IP"] == there.address


def test_a_server_that_does_not_come_up_ends_the_training_with_its_reason(tmp_path: Path, machine: Machine) -> None:
    folder = run_on_two_machines(tmp_path / "run", ENDS, "--says", "ValueError: too small")
    trainer = machine(folder, "train.py")
    wait_until((folder / "run.json").exists)
    server = machine(folder, *SERVER)
    told, _ = server.communicate(timeout=180)
    assert (server.returncode, trainer.wait(180)) == (1, 1), told
    assert "ended with exit code 1 before it was up\n  = because: ValueError: too small" in told
    assert record(folder)["status"] == "failed"
    assert "= because: ValueError: too small" in record(folder)["message"]
    assert "Traceback" not in trainer.communicate()[0]


def test_a_server_that_dies_interrupts_the_training(tmp_path: Path, machine: Machine) -> None:
    folder = run_on_two_machines(tmp_path / "run", ASKS)
    server, trainer = up(folder, machine), machine(folder, "train.py")
    wait_until((folder / "asks").exists)
    os.kill(server_pids(folder)[0][0], signal.SIGKILL)
    assert (server.wait(180), trainer.wait(180)) == (75, 75)
    assert record(folder)["status"] == "interrupted"
    assert record(folder)["message"].startswith("the vLLM server ")
    assert "Traceback" not in trainer.communicate()[0]
    assert (state(folder), len(server_pids(folder))) == ("lost", 1), "none is started again"


def test_a_failure_of_the_trainer_is_its_own_while_the_server_answers(tmp_path: Path, machine: Machine) -> None:
    folder = run_on_two_machines(tmp_path / "run", "raise ValueError('of the reward')\n")
    server, trainer = up(folder, machine), machine(folder, "train.py")
    assert trainer.wait(180) == 1
    assert record(folder)["message"] == "ValueError: of the reward"
    assert server.wait(180) == 0


def test_the_last_word_of_an_earlier_server_is_not_taken_for_this_ones(tmp_path: Path, machine: Machine) -> None:
    folder = run_on_two_machines(tmp_path / "run", ENDS)
    write_notice(folder, Notice("failed", "earlier", None, "the GPUs were taken"))
    trainer = machine(folder, "train.py")
    time.sleep(1.5)
    machine(folder, *SERVER)
    assert trainer.wait(180) == 0


def test_the_end_of_an_earlier_training_is_not_taken_for_this_ones(tmp_path: Path, machine: Machine) -> None:
    folder = run_on_two_machines(tmp_path / "run", ASKS)
    (folder / "run.json").write_text(json.dumps({"status": "interrupted", "ended": "2026-01-01T00:00:00+00:00"}))
    server, trainer = up(folder, machine), machine(folder, "train.py")
    wait_until((folder / "asks").exists)
    time.sleep(2.5)
    assert server.poll() is None
    (folder / "enough").touch()
    assert (trainer.wait(180), server.wait(180)) == (0, 0)


def test_trainers_that_wait_in_vain_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_machine, "_LONGER_S", 0.0)
    server = planned_server(startup_timeout=0, own_node=True)
    plan = plan_with_server(World("local", 1, 1, "cpu", "single"), server)
    with pytest.raises(ServerProblem, match=r"it has not written vllm_server\.json"):
        other_machine.wait_for_server(plan, tmp_path)
    write_notice(tmp_path, Notice("up", "earlier", "http://127.0.0.1:9"))
    with pytest.raises(ServerProblem, match=r"up at http://127\.0\.0\.1:9, but does not answer this machine"):
        other_machine.wait_for_server(plan, tmp_path)
    write_notice(tmp_path, Notice("failed", "earlier", None, "the GPUs were taken\n  = because: of others"))
    with pytest.raises(ServerProblem, match="it reported: the GPUs were taken\n  = fix"):
        other_machine.wait_for_server(plan, tmp_path)


def test_a_signal_lets_it_serve_until_the_trainers_have_saved(tmp_path: Path, machine: Machine) -> None:
    folder = run_on_two_machines(tmp_path / "run", ASKS)
    server, trainer = up(folder, machine), machine(folder, "train.py")
    wait_until((folder / "asks").exists)
    server.send_signal(signal.SIGUSR1)
    time.sleep(1)
    assert (server.poll(), trainer.poll()) == (None, None)
    (folder / "enough").touch()
    assert (trainer.wait(180), server.wait(180)) == (0, 75)
    assert record(folder)["status"] == "completed"


def test_a_signal_ends_it_at_once_where_nobody_trains(tmp_path: Path, machine: Machine) -> None:
    folder = run_on_two_machines(tmp_path / "run", ENDS)
    server = up(folder, machine)
    server.send_signal(signal.SIGINT)
    assert server.wait(180) == 75
    assert state(folder) == "stopped"


def test_a_signal_while_it_starts_ends_it_and_the_trainers(tmp_path: Path, machine: Machine) -> None:
    folder = run_on_two_machines(tmp_path / "run", ENDS, "--after", "30", startup_timeout=60)
    trainer = machine(folder, "train.py")
    wait_until((folder / "run.json").exists)
    server = machine(folder, *SERVER)
    wait_until(lambda: server_pids(folder))
    server.send_signal(signal.SIGTERM)
    assert (server.wait(180), trainer.wait(180)) == (75, 75)
    assert record(folder)["message"] == "the vLLM server was asked to stop before it was up"


def test_nothing_of_it_lives_on_when_it_is_killed(tmp_path: Path, mark: str, machine: Machine) -> None:
    server = up(run_on_two_machines(tmp_path / "run", ENDS), machine)
    server.kill()
    wait_until(lambda: not marked(mark))


def test_a_run_has_one_server(tmp_path: Path, machine: Machine) -> None:
    folder = run_on_two_machines(tmp_path / "run", ENDS)
    up(folder, machine)
    second = machine(folder, *SERVER)
    assert second.wait(180) == 2
    assert state(folder) == "up"


def test_a_machine_that_nobody_knows_is_said(tmp_path: Path, machine: Machine) -> None:
    assert address_towards("localhost") == "127.0.0.1"
    folder = run_on_two_machines(tmp_path / "run", ENDS)
    server = machine(folder, "serve.py", "--alone", "no-such-machine.invalid")
    told, _ = server.communicate(timeout=180)
    assert server.returncode == 1
    assert "the machine no-such-machine.invalid cannot be reached from this one" in told
    assert server_pids(folder) == []
