"""`grpo-run` as a user types it, with the real stack."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "recipes" / "quickstart.yaml"

pytestmark = pytest.mark.stack


def _grpo_run(folder: Path, *arguments: str, python: str) -> subprocess.CompletedProcess[str]:
    command = [python, "-m", "grpo_recipes.cli.main", *arguments]
    environment = os.environ | {"XDG_CONFIG_HOME": str(folder / "config"), "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=900)


def _record(folder: Path) -> dict:
    return json.loads((folder / "run.json").read_text())


def _assert_trained(folder: Path, steps: int, trainable: str, processes: int) -> None:
    record = _record(folder)
    assert (record["status"], record["step"]) == ("completed", steps)
    plan = json.loads((folder / "plan.json").read_text())
    assert plan["expect"]["trainable"] == trainable
    arguments = plan["arguments"]["GRPOConfig"]
    assert arguments["per_device_train_batch_size"] * arguments["gradient_accumulation_steps"] * processes == 8 * 8
    assert (folder / "final" / "adapter_model.safetensors").is_file() == (trainable == "lora")


def test_the_quickstart_learns_to_carry(tmp_path: Path, warm_python: Path) -> None:
    values = ("training.max_steps=20", "training.prompts_per_step=8", "evaluation.max_rows=100")
    words = [word for value in values for word in ("--set", value)]
    done = _grpo_run(tmp_path, str(QUICKSTART), *words, "--out", "run", python=str(warm_python / "python"))
    assert done.returncode == 0, done.stderr
    _assert_trained(tmp_path / "run", 20, "lora", processes=1)
    evaluation = _record(tmp_path / "run")["evaluation"]
    assert evaluation["before"]["reward"] < 0.5
    assert evaluation["after"]["reward"] > 0.85
    assert "wrong before, right now" in done.stdout
    assert str(Path("run", "final")) in done.stdout


@pytest.mark.long
def test_all_weights_of_the_quickstart_learn_with_two_processes(tmp_path: Path, warm_run: Callable[..., Any]) -> None:
    values = ["lora=null", "training.learning_rate=3e-4", "launch.num_processes=2", "training.max_steps=4"]
    values += ["training.prompts_per_step=8", "evaluation.max_rows=64"]
    words = [word for value in values for word in ("--set", value)]
    done = warm_run(str(QUICKSTART), *words, "--out", "run")
    assert done.code == 0, done.err
    _assert_trained(tmp_path / "run", 4, "full", processes=2)
    evaluation = _record(tmp_path / "run")["evaluation"]
    assert evaluation["after"]["reward"] > evaluation["before"]["reward"] + 0.1


def test_a_python_reward_runs_only_when_its_digest_was_allowed(
    tmp_path: Path, warm_run: Callable[..., Any], warm_python: Path
) -> None:
    reward = tmp_path / "rewards.py"
    reward.write_text(
        "from pathlib import Path\n"
        f"Path({str(tmp_path / 'executed')!r}).touch()\n"
        "def last_digit(completions, *, solution, **kwargs):\n"
        "    texts = [c[-1]['content'] if isinstance(c, list) else c for c in completions]\n"
        "    return [float(t.strip()[-1:] == s[-1:]) for t, s in zip(texts, solution)]\n"
    )
    child = tmp_path / "child.yaml"
    child.write_text(
        f"extends: {QUICKSTART}\nrewards:\n  - {{python: rewards.py:last_digit}}\n"
        "evaluation: null\ntraining: {max_steps: 1, prompts_per_step: 4}\n"
    )
    for check in (["validate"], ["plan"], ["run", "--dry-run", "--out", "dry"]):
        assert warm_run(*check, str(child)).code == 0
    refused = warm_run(str(child), "--out", "run")
    assert refused.code == 2
    assert not (tmp_path / "executed").exists()
    assert not (tmp_path / "run").exists()
    allow = refused.err.split("--allow-code ")[1].split()[0].rstrip(";,")
    assert warm_run(str(child), "--out", "run", "--allow-code", "0" * 64).code == 2
    done = warm_run(str(child), "--out", "run", "--allow-code", allow)
    assert done.code == 0, done.err
    assert (tmp_path / "executed").exists()
    metrics = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert any("rewards/last_digit/mean" in line for line in metrics)
    again = _grpo_run(tmp_path, str(child), "--out", "again", python=str(warm_python / "python"))
    assert again.returncode == 0, "the digest is remembered"
    reward.write_text(reward.read_text() + "# changed\n")
    assert warm_run(str(child), "--out", "changed").code == 2


def test_a_run_never_writes_into_a_folder_that_is_in_use(tmp_path: Path, warm_run: Callable[..., Any]) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious").write_text("kept")
    assert warm_run(str(QUICKSTART), "--out", "run").code == 2
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["precious"]


def test_an_interrupted_run_ends_with_75_and_goes_on_where_it_was(
    tmp_path: Path, warm_run: Callable[..., Any], warm_python: Path
) -> None:
    warm = str(warm_python / "python")
    command = [warm, "-m", "grpo_recipes.cli.main", str(QUICKSTART), "--set", "training.max_steps=10"]
    command += ["--set", "training.prompts_per_step=8", "--set", "evaluation=null", "--out", "run"]
    environment = os.environ | {"XDG_CONFIG_HOME": str(tmp_path / "config"), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    metrics = tmp_path / "run" / "metrics.jsonl"
    try:
        until = time.monotonic() + 300
        while not (metrics.is_file() and metrics.read_text().count('"step"') > 1):
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=300) == 75
    finally:
        process.kill()
    stopped = _record(tmp_path / "run")
    assert stopped["status"] == "interrupted"
    assert 0 < stopped["step"] < 10
    for arguments in (["nowhere"], ["run", "--set", "seed=1"]):
        assert warm_run("run", "--resume", *arguments).code == 2
    assert warm_run("run", "--resume", "run").code == 0
    assert (_record(tmp_path / "run")["status"], _record(tmp_path / "run")["step"]) == ("completed", 10)
    assert warm_run("run", "--resume", "run").code == 2, "it is finished"
