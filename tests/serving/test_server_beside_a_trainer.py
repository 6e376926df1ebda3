"""A server of the run is up before the trainer starts, and gone after it."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from serving_programs import lines, served_run, server_pids
from support.plans import MODEL
from support.processes import marked, wait_until

from grpo_recipes.contract.plan_machine import World

ByHand = Callable[..., "subprocess.Popen[str]"]
ASKS = "urllib.request.urlopen(url + '/health'); end('completed', 0)"
WAITS = "signal.signal(signal.SIGTERM, lambda *_: end('interrupted', 75)); open('waits', 'w').close(); time.sleep(600)"


def record(folder: Path) -> dict[str, object]:
    content: dict[str, object] = json.loads((folder / "run.json").read_text())
    return content


def test_the_server_is_up_when_the_trainer_starts_and_gone_after_it(tmp_path: Path, by_hand: ByHand) -> None:
    folder = served_run(tmp_path / "run", ASKS, "--after", "0.3")
    output, _ = by_hand(folder).communicate(timeout=180)
    assert record(folder)["status"] == "completed", output
    assert [event["state"] for event in lines(folder / "metrics.jsonl")] == ["starting", "up"]
    assert "the vLLM server is up at http://127.0.0.1:" in output
    assert (folder / "vllm_server.log").read_text().startswith("server ")


def test_the_exit_code_is_that_of_the_trainer(tmp_path: Path, by_hand: ByHand) -> None:
    folder = served_run(tmp_path / "run", "end('stopped', 3)")
    assert by_hand(folder).wait(180) == 3
    assert len(server_pids(folder)) == 1


def test_a_failure_of_the_trainer_alone_starts_nothing_again(tmp_path: Path, by_hand: ByHand) -> None:
    folder = served_run(tmp_path / "run", "end('failed', 1)")
    assert by_hand(folder).wait(180) == 1
    assert len(server_pids(folder)) == 1


def test_gpus_are_shared_out_from_those_that_the_run_may_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_hand: ByHand
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,GPU-6f,7")
    folder = served_run(tmp_path / "run", ASKS, world=World("local", 1, 3, "cuda", "ddp"), gpus=(3,))
    assert by_hand(folder).wait(180) == 0
    assert lines(folder / "trainers")[0]["CUDA_VISIBLE_DEVICES"] == "4,5,GPU-6f"
    assert "GPUs 7\n" in (folder / "vllm_server.log").read_text()


def test_gpus_are_counted_from_the_first_where_all_may_be_seen(tmp_path: Path, by_hand: ByHand) -> None:
    folder = served_run(tmp_path / "run", ASKS, world=World("local", 1, 2, "cuda", "ddp"), gpus=(2, 3))
    assert by_hand(folder).wait(180) == 0
    assert lines(folder / "trainers")[0]["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert "GPUs 2,3\n" in (folder / "vllm_server.log").read_text()


def test_a_run_that_may_see_too_few_gpus_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_hand: ByHand
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    folder = served_run(tmp_path / "run", ASKS, world=World("local", 1, 3, "cuda", "ddp"), gpus=(3,))
    assert by_hand(folder).wait(180) == 1
    assert "needs 4 GPUs" in str(record(folder)["message"])


def test_no_proxy_stands_between_trainer_and_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_hand: ByHand
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "example.org")
    folder = served_run(tmp_path / "run", ASKS)
    assert by_hand(folder).wait(180) == 0
    assert lines(folder / "trainers")[0]["NO_PROXY"] == "example.org,127.0.0.1"


def test_a_server_that_dies_early_is_shown_with_its_last_words(tmp_path: Path, by_hand: ByHand) -> None:
    folder = served_run(tmp_path / "run", ASKS, "--nonsense")
    process = by_hand(folder)
    output, _ = process.communicate(timeout=180)
    assert process.returncode == 1
    assert "ended with exit code 2 before it was up" in output
    assert "unrecognized arguments: --nonsense" in output
    assert record(folder)["status"] == "failed"
    assert "unrecognized arguments" in str(record(folder)["message"])
    assert not (folder / "trainers").exists()


# As vLLM 0.31.0 says it.
WORKER = """(APIServer pid=1) WARNING ulimit: fd limit errors like `OSError: [Errno 24] Too many open files`
(Worker pid=3) ERROR 11-21 [multiproc_executor.py:1058] ValueError: No common block size for 7
(EngineCore pid=2) ERROR 11-21 [core.py:1433] RuntimeError: Worker failed with error 'No common', please check the \
stack trace above for the root cause
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"""
PYDANTIC = """pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, max_model_len (100000) is greater than 512
    For further information visit the page of value_error"""


@pytest.mark.parametrize(
    ("says", "because"),
    [
        ("it ends", "it ends"),
        (WORKER, "ValueError: No common block size for 7"),
        (PYDANTIC, "Value error, max_model_len (100000) is greater than 512"),
    ],
    ids=["no exception", "in a process below", "in its arguments"],
)
def test_the_reason_of_a_server_that_dies_early_is_its_root_cause(
    says: str, because: str, tmp_path: Path, by_hand: ByHand
) -> None:
    folder = served_run(tmp_path / "run", ASKS, "--says", says)
    assert by_hand(folder).wait(180) == 1
    assert f"= because: {because}\n" in str(record(folder)["message"])


def test_a_server_that_never_gets_healthy_ends_the_run(tmp_path: Path, by_hand: ByHand) -> None:
    folder = served_run(tmp_path / "run", ASKS, "--after", "30", startup_timeout=1)
    assert by_hand(folder).wait(180) == 1
    assert "was not up after 1 seconds" in str(record(folder)["message"])
    assert "vllm_server.startup_timeout" in str(record(folder)["message"])


def test_a_server_with_another_model_ends_the_run(tmp_path: Path, by_hand: ByHand) -> None:
    folder = served_run(tmp_path / "run", ASKS, "--serves", "/models/other")
    assert by_hand(folder).wait(180) == 1
    assert record(folder)["message"] == f"the vLLM server serves /models/other, not {MODEL}"


def test_a_taken_port_is_refused_with_who_has_it(tmp_path: Path, by_hand: ByHand) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        folder = served_run(tmp_path / "run", ASKS, port=port)
        assert by_hand(folder).wait(180) == 1
    message = str(record(folder)["message"])
    assert f"port {port} of the vLLM server is taken" in message
    assert f"process {os.getpid()} (" in message
    assert server_pids(folder) == []


def test_a_fixed_port_is_taken_again_after_a_restart(tmp_path: Path, by_hand: ByHand) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    kills = (
        "pid = int(open('server.pids').readlines()[-1].split()[0])\nif starts == 1: os.kill(pid, 9); time.sleep(600)\n"
    )
    folder = served_run(tmp_path / "run", kills + ASKS, port=port)
    assert by_hand(folder).wait(180) == 0
    assert [trainer["GRPO_RUN_VLLM_URL"] for trainer in lines(folder / "trainers")] == [f"http://127.0.0.1:{port}"] * 2


def test_old_checkpoints_are_seen_before_a_server_starts(tmp_path: Path, by_hand: ByHand) -> None:
    folder = served_run(tmp_path / "run", ASKS)
    (folder / "checkpoints" / "checkpoint-2").mkdir(parents=True)
    assert by_hand(folder).wait(180) == 3
    assert server_pids(folder) == []
    assert by_hand(folder, "--resume").wait(180) == 0
    assert lines(folder / "trainers")[0]["resume"] is True


def test_sigterm_lets_the_trainer_save(tmp_path: Path, by_hand: ByHand) -> None:
    folder = served_run(tmp_path / "run", WAITS)
    process = by_hand(folder)
    wait_until((folder / "waits").exists)
    process.send_signal(signal.SIGTERM)
    assert process.wait(180) == 75
    assert record(folder)["status"] == "interrupted"


def test_a_second_signal_kills(tmp_path: Path, by_hand: ByHand) -> None:
    folder = served_run(
        tmp_path / "run",
        "signal.signal(15, lambda *_: open('told', 'w').close())\nopen('waits', 'w').close()\nwhile 1: time.sleep(1)",
    )
    process = by_hand(folder)
    wait_until((folder / "waits").exists)
    process.send_signal(signal.SIGTERM)
    wait_until((folder / "told").exists)
    process.send_signal(signal.SIGTERM)
    assert process.wait(180) == 75
    assert record(folder)["status"] == "interrupted"


def test_a_signal_while_the_server_starts_ends_the_run(tmp_path: Path, by_hand: ByHand) -> None:
    folder = served_run(tmp_path / "run", ASKS, "--after", "30", startup_timeout=60)
    process = by_hand(folder)
    wait_until(lambda: server_pids(folder))
    process.send_signal(signal.SIGINT)
    assert process.wait(180) == 75
    assert record(folder)["status"] == "interrupted"
    assert not (folder / "trainers").exists()


def test_nothing_lives_on_when_the_watcher_is_killed(tmp_path: Path, mark: str, by_hand: ByHand) -> None:
    folder = served_run(tmp_path / "run", WAITS)
    process = by_hand(folder)
    wait_until((folder / "waits").exists)
    process.kill()
    wait_until(lambda: not marked(mark))


def test_nothing_lives_on_when_grpo_run_is_killed(tmp_path: Path, mark: str, grpo_run: ByHand) -> None:
    folder = served_run(tmp_path / "run", WAITS)
    process = grpo_run(folder)
    wait_until((folder / "waits").exists)
    process.kill()
    wait_until(lambda: not marked(mark))


def test_grpo_run_passes_a_signal_on(tmp_path: Path, grpo_run: ByHand) -> None:
    folder = served_run(tmp_path / "run", WAITS)
    process = grpo_run(folder)
    wait_until((folder / "waits").exists)
    process.send_signal(signal.SIGINT)
    assert process.wait(180) == 75
    assert record(folder)["status"] == "interrupted"
