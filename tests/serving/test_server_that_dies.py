"""A server that dies in mid-run costs the steps since the last checkpoint, not the run."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from serving_programs import lines, served_run, server_pids

ByHand = Callable[..., "subprocess.Popen[str]"]
KILLS = """
pid, engine = open('server.pids').readlines()[-1].split()
def kill_server(): os.kill(int(pid), 9)
"""
HANGS = "kill_server(); time.sleep(600)\n"
FAILS = "kill_server(); time.sleep(0.1); end('failed', 1)\n"
SAVES = "os.makedirs('checkpoints/checkpoint-2'); record.update(step=3)\n"


def record(folder: Path) -> dict[str, object]:
    content: dict[str, object] = json.loads((folder / "run.json").read_text())
    return content


@pytest.mark.parametrize("what_the_trainer_does", [HANGS, FAILS], ids=["hangs", "fails"])
def test_server_and_trainer_begin_anew_where_nothing_was_saved(
    tmp_path: Path, by_hand: ByHand, what_the_trainer_does: str
) -> None:
    program = f"{KILLS}if starts == 1:\n    {what_the_trainer_does}end('completed', 0)"
    folder = served_run(tmp_path / "run", program)
    process = by_hand(folder)
    output, _ = process.communicate(timeout=180)
    assert process.returncode == 0, output
    assert [trainer["resume"] for trainer in lines(folder / "trainers")] == [False, False]
    assert len(server_pids(folder)) == 2
    assert "the vLLM server was killed by signal 9; restarting server and trainer, 1 of 2" in output


def test_the_last_checkpoint_is_gone_on_from(tmp_path: Path, by_hand: ByHand) -> None:
    folder = served_run(tmp_path / "run", f"{KILLS}if starts == 1:\n    {SAVES}    {HANGS}end('completed', 0)")
    assert by_hand(folder).wait(180) == 0
    assert [trainer["resume"] for trainer in lines(folder / "trainers")] == [False, True]


def test_each_death_is_in_the_record_and_in_the_metrics(tmp_path: Path, by_hand: ByHand) -> None:
    folder = served_run(tmp_path / "run", f"{KILLS}if starts < 3:\n    {HANGS}end('completed', 0)")
    assert by_hand(folder).wait(180) == 0
    assert record(folder)["status"] == "completed"
    restarts = record(folder)["vllm_server"]["restarts"]  # type: ignore[index]
    assert [(death["step"], death["how"]) for death in restarts] == [(0, "was killed by signal 9")] * 2
    states = [event["state"] for event in lines(folder / "metrics.jsonl")]
    assert states == ["starting", "up", "died", "starting", "up", "died", "starting", "up"]


def test_it_is_started_again_so_often_and_no_more(tmp_path: Path, by_hand: ByHand) -> None:
    folder = served_run(tmp_path / "run", f"{KILLS}{FAILS}", max_restarts=1)
    process = by_hand(folder)
    output, _ = process.communicate(timeout=180)
    assert process.returncode == 1
    assert len(server_pids(folder)) == 2
    assert record(folder)["status"] == "failed"
    assert "the vLLM server died 2 times: it was killed by signal 9" in output
    assert "vllm_server.max_restarts is 1" in str(record(folder)["message"])


def test_a_server_without_its_engine_is_a_dead_one(tmp_path: Path, by_hand: ByHand) -> None:
    # vLLM's server answers 503 when it is asked for its health then.
    folder = served_run(
        tmp_path / "run", "if starts == 1:\n    open('sick', 'w').close(); end('failed', 1)\nend('completed', 0)"
    )
    process = by_hand(folder)
    output, _ = process.communicate(timeout=180)
    assert process.returncode == 0, output
    assert "stopped answering" in output


def test_a_run_that_was_asked_to_stop_saves_and_is_not_started_again(tmp_path: Path, by_hand: ByHand) -> None:
    # As where a scheduler tells every process of a job.
    saves = "kill_server(); time.sleep(0.8); os.mkdir('saved'); end('interrupted', 75)"
    program = f"{KILLS}signal.signal(15, lambda *_: None)\nos.kill(os.getppid(), 15); signal.pause(); {saves}"
    folder = served_run(tmp_path / "run", program)
    assert by_hand(folder).wait(180) == 75
    assert record(folder)["status"] == "interrupted"
    assert (folder / "saved").exists()
    assert len(server_pids(folder)) == 1
