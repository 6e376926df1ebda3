"""The worker stops when it is told to, and when something is not as planned."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from support.processes import wait_until
from worker_runs import Changes, Trained, events, lora_numbers, planned_reward, record, start, train

SLOW_REWARD = """
import time

def slow(completions, **kwargs):
    time.sleep(0.2)
    return [float(len(set(completion[0]["content"]))) for completion in completions]
"""


@pytest.mark.stack
@pytest.mark.usefixtures("warm")
def test_an_interrupted_run_leaves_a_checkpoint_from_which_it_goes_on_to_the_same_losses(
    make_plan: Callable[..., Changes],
    make_run: Callable[..., Path],
    trained: Callable[..., Trained],
    sha256_of_text: Callable[[str], str],
) -> None:
    reward = planned_reward("slow.py:slow", kind="python", name="slow", sha256=sha256_of_text(SLOW_REWARD))
    plan = make_plan("lora", arguments={"max_steps": 12}, rewards=[reward])
    slow = {"slow.py": SLOW_REWARD}
    folder = make_run(plan, user=slow)

    process = start(folder)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step 2/"):
            process.send_signal(signal.SIGTERM)
            break
    output = process.communicate(timeout=120)[0]

    assert process.returncode == 75, output
    end = record(folder)
    stopped_at = end["step"]
    assert (end["status"], end["exit_code"], end["final"]) == ("interrupted", 75, None)
    assert 2 <= stopped_at < 12
    assert end["checkpoint"] == str(folder / "checkpoints" / f"checkpoint-{stopped_at}")
    saved = {path.name for path in Path(end["checkpoint"]).iterdir()}
    assert {"adapter_model.safetensors", "optimizer.pt", "rng_state.pth", "trainer_state.json"} <= saved
    assert [path.name for path in (folder / "checkpoints").iterdir()] == [f"checkpoint-{stopped_at}"]

    assert trained(plan, user=slow, folder=folder).exit_code == 3  # without resume it would train over the checkpoint
    done = trained(plan, user=slow, folder=folder, resume=True)
    assert done.exit_code == 0, done.output
    assert done.record["status"] == "completed"
    whole = trained(plan, user=slow)
    assert whole.exit_code == 0, whole.output
    assert losses(folder) == losses(whole.folder)


@pytest.mark.stack
@pytest.mark.usefixtures("warm")
def test_a_signal_during_the_evaluation_at_step_0_ends_it_after_a_batch(
    make_plan: Callable[..., Changes], make_run: Callable[..., Path], held_out: Callable[..., Changes]
) -> None:
    minutes = held_out(samples=400, batch_size=1, greedy=False)
    folder = make_run(make_plan(evaluation=minutes))
    process = start(folder)
    wait_until(lambda: (folder / "run.json").exists() and "evaluating before" in json.dumps(record(folder)["phases"]))
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=60)[0]
    end = record(folder)
    assert (process.returncode, end["status"], end["evaluation"]) == (75, "interrupted", {}), output
    assert end["message"] == "stopped by a signal before the first step"


def losses(folder: Path) -> list[tuple[int, float, float]]:
    return [(step["step"], step["loss"], step["reward"]) for step in events(folder, "step")]


@pytest.mark.stack
def test_a_reward_that_raises_fails_the_run_with_its_message(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained], sha256_of_text: Callable[[str], str]
) -> None:
    text = "def broken(completions, **kwargs):\n    raise LookupError('no such unit')\n"
    reward = planned_reward("broken.py:broken", kind="python", name="broken", sha256=sha256_of_text(text))

    done = trained(make_plan(rewards=[reward]), user={"broken.py": text})

    assert done.exit_code == 1
    assert "Traceback" in done.output
    assert done.record["status"] == "failed"
    first, second = done.record["message"].splitlines()[:2]
    assert first == "reward broken raised LookupError: no such unit"
    assert second.startswith("  = because: broken.py:2: ")


@pytest.mark.stack
def test_all_differences_of_the_live_trainer_are_named_at_once(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    plan = make_plan("lora")
    plan["expect"]["trainable_parameters"] = 4711
    plan["expect"]["arguments"]["beta"] = 0.04
    plan["expect"]["arguments"]["learning_rate"] = 0.003

    done = trained(plan)

    assert done.exit_code == 3, done.output
    assert "error: arguments: the proof failed before the first step [PRF013]\n" in done.output
    assert "trained tensors: the proof failed before the first step [PRF014]\n" in done.output
    assert "  GRPOConfig.beta: plan 0.04, live 0.0\n" in done.output
    assert f"  trainable parameters: plan 4711, live {lora_numbers(4)}\n" in done.output
    assert "learning_rate" not in done.output
    assert [check["name"] for check in done.record["checks"] if not check["ok"]] == [
        "GRPOConfig.beta",
        "trainable parameters",
    ]
    assert not (done.folder / "metrics.jsonl").exists()


@pytest.mark.processes
def test_a_reward_file_that_changed_after_the_plan_is_refused_and_not_run(
    stub_plan: Changes, make_run: Callable[..., Path], sha256_of_text: Callable[[str], str]
) -> None:
    changed = "open('was_run', 'w')\n"
    stub_plan["rewards"] = [
        planned_reward("mine.py:f", kind="python", name="f", sha256=sha256_of_text("def f(): ...\n"))
    ]
    folder = make_run(stub_plan, user={"mine.py": changed})

    exit_code, output = train(folder)

    assert exit_code == 3
    assert "mine.py changed since the plan was made" in output
    assert record(folder)["message"] in output
    assert not (folder / "was_run").exists()


@pytest.mark.processes
def test_a_plan_that_lacks_a_key_stops_the_worker(stub_plan: Changes, make_run: Callable[..., Path]) -> None:
    del stub_plan["expect"]["world_size"], stub_plan["expect"]["trainable"]
    folder = make_run(stub_plan)

    exit_code, output = train(folder)

    assert exit_code == 3
    assert "  = because: it lacks expect.world_size, expect.trainable" in output


@pytest.mark.parametrize("text", ["", "[]", "{", json.dumps({"plan": 2})], ids=["empty", "list", "torn", "format 2"])
@pytest.mark.processes
def test_what_is_no_plan_stops_the_worker(text: str, stub_plan: Changes, make_run: Callable[..., Path]) -> None:
    folder = make_run(stub_plan)
    (folder / "plan.json").write_text(text)

    exit_code, output = train(folder)

    assert (exit_code, record(folder)["status"]) == (3, "stopped")
    assert "Traceback" not in output


@pytest.mark.processes
def test_a_file_of_pythonpath_that_hides_a_package_is_named(stub_plan: Changes, make_run: Callable[..., Path]) -> None:
    folder = make_run(stub_plan)
    (folder / "modules").mkdir()
    file = folder / "modules" / "datasets.py"
    file.write_text("from datasets.nowhere import nothing\n")

    exit_code, output = train(folder, PYTHONPATH=str(file.parent))

    assert exit_code == 1
    assert f"error: {file} is imported instead of the package datasets\n" in output
    assert "Traceback" not in output
    assert "the variable PYTHONPATH names" in record(folder)["message"]


@pytest.mark.processes
def test_a_signal_before_the_first_step_ends_the_worker_at_once(
    stub_plan: Changes, make_run: Callable[..., Path]
) -> None:
    folder = make_run(stub_plan)
    modules = folder / "modules"
    modules.mkdir()
    (modules / "datasets.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(600)\n")

    process = start(folder, PYTHONPATH=str(modules))
    assert process.stdout is not None
    assert "importing\n" in (process.stdout.readline(), process.stdout.readline())  # behind a phase that is over
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=300)

    assert process.returncode == 75
    assert record(folder)["status"] == "interrupted"


ASKING_REWARD = """
import os, signal, time

def asking(completions, **kwargs):
    if len(completions) == 11:  # the held-out rows
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)
    return [float(len(set(completion[0]["content"]))) for completion in completions]
"""


@pytest.mark.stack
def test_a_signal_during_the_first_evaluation_ends_it_between_two_batches(
    make_plan: Callable[..., Changes],
    trained: Callable[..., Trained],
    held_out: Callable[..., Changes],
    sha256_of_text: Callable[[str], str],
) -> None:
    reward = planned_reward("asking.py:asking", kind="python", name="asking", sha256=sha256_of_text(ASKING_REWARD))
    second = {**held_out(), "name": "second"}
    plan = make_plan("lora", arguments={"max_steps": 2}, rewards=[reward], evaluation=held_out(others=[second]))

    done = trained(plan, user={"asking.py": ASKING_REWARD})

    assert done.exit_code == 75, done.output
    assert "step 1/" not in done.output
    assert "interrupted; the run can be resumed\n" in done.output
    end = done.record
    assert (end["status"], end["step"], end["checkpoint"]) == ("interrupted", 0, None)
    assert end["message"] == "stopped by a signal before the first step"
