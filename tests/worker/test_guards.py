"""Each guard speaks in a real run that has its fault, and none does in a run that learns."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worker_runs import Changes, Trained, events, planned_data, planned_reward

pytestmark = pytest.mark.stack

# Two groups of two.
SMALL = {"per_device_train_batch_size": 4, "num_generations": 2, "max_completion_length": 3}
# Called once for each step's completions, with `calls` counted from 1.
REWARD = """
import ctypes, os, re, signal, subprocess, time

calls, kept = 0, []

def mine(completions, **kwargs):
    global calls
    calls += 1
    texts = [completion[0]["content"] for completion in completions]
    digits = [sum(character.isdigit() for character in text) for text in texts]
    {}
"""


@pytest.fixture
def run(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained], sha256_of_text: Callable[[str], str]
) -> Callable[..., Trained]:
    """Trains with a reward of one line and changed guards, all others at their defaults."""

    def make(reward: str = "return digits", guards: Changes | None = None, **changes: Any) -> Trained:
        request = {name: changes.pop(name) for name in ("fault", "ranks", "resume", "folder") if name in changes}
        text = REWARD.format(reward)
        mine = planned_reward("mine.py:mine", kind="python", name="mine", sha256=sha256_of_text(text))
        plan = make_plan(changes.pop("mode", "lora"), rewards=[mine], **changes)
        plan["guards"] |= guards or {}
        plan["expect"]["arguments"] = {}
        plan["expect"]["world_size"] = plan["world"]["num_processes"] = request.get("ranks", 1)
        return trained(plan, user={"mine.py": text}, **request)

    return make


def test_a_run_that_learns_is_left_alone(run: Callable[..., Trained], held_out: Callable[..., Changes]) -> None:
    # The evaluation in the middle takes longer than a step may.
    slow = "time.sleep(1.5 if calls == 17 else 0); return [-float(len(text)) for text in texts]"
    learning = run(slow, {"no_progress_seconds": 1}, arguments={"max_steps": 30}, evaluation=held_out(every_steps=15))
    assert learning.exit_code == 0, learning.output
    assert learning.record["guards"] == []
    assert max(line["seconds"] for line in events(learning.folder, "evaluation")) > 1.5
    assert learning.record["guards_not_seen"] == []
    assert events(learning.folder, "guard") == []
    rewards = [line["reward"] for line in events(learning.folder, "step")]
    assert sum(rewards[-5:]) > sum(rewards[:5]), "it learned"
    assert len(events(learning.folder, "evaluation")) == 3
    assert not (learning.folder / "stalled").exists()


STOPPING = [
    pytest.param(
        "return [0.5] * len(texts)",
        {"zero_variance_groups": 20},
        {**SMALL, "max_steps": 20},
        ("zero_variance", 10, "none of 20 groups so far had two different rewards (mean reward 0.5)"),
        id="constant reward",
    ),
    pytest.param(
        "return [float('inf') if calls > 3 else one for one in digits]",
        {},
        {},
        ("not_finite", 4, "because: a reward function returned a value that makes this step's reward inf: mine"),
        id="infinite reward",
    ),
    pytest.param(
        "return digits",
        {},
        {"learning_rate": 1e30},
        ("not_finite", 2, "found    a probability of a next token of nan"),
        id="sampling from lost weights",
    ),
    pytest.param(
        "return digits",
        {},
        {"learning_rate": 1e39, "max_steps": 1},
        ("not_finite", 1, "28 trained tensors contain NaN or infinity after the last step"),
        id="the last update",
    ),
    pytest.param(
        "return [1e25 * one for one in digits]",
        {},
        {"scale_rewards": "none"},
        ("not_finite", 1, "found    a gradient norm of inf"),
        id="infinite gradient",
    ),
    pytest.param(
        "return digits",
        {"no_movement_steps": 5},
        {**SMALL, "learning_rate": 0.0, "max_steps": 8},
        ("no_movement", 5, "because: the learning rate is 0"),
        id="learning rate 0",
    ),
]


@pytest.mark.parametrize(("reward", "guards", "arguments", "expected"), STOPPING)
def test_a_guard_stops_the_run(
    reward: str, guards: Changes, arguments: Changes, expected: tuple[str, int, str], run: Callable[..., Trained]
) -> None:
    stopped = run(reward, guards, arguments={"save_strategy": "steps", "save_steps": 1, **arguments})
    name, step, message = expected
    spoken = stopped.guards()[name]
    assert (stopped.exit_code, stopped.record["status"], stopped.record["exit_code"]) == (3, "stopped", 3)
    assert f"{name}: the guard stopped the run at step {step} [{spoken['id']}]" in stopped.record["message"]
    assert message in stopped.record["message"]
    assert stopped.record["message"] in stopped.output
    assert (spoken["action"], spoken["first_step"], spoken["count"]) == ("stop", step, 1)
    (event,) = events(stopped.folder, "guard")
    assert (event["name"], event["step"], event["action"]) == (name, step, "stop")
    assert not (stopped.folder / "final").exists()
    assert "Traceback" not in stopped.output
    saved = sorted(int(path.name.partition("-")[2]) for path in (stopped.folder / "checkpoints").glob("checkpoint-*"))
    assert saved == list(range(1, step))


SPEAKING = [
    pytest.param(
        "return [0.5] * len(texts)",
        {"zero_variance": "off"},
        {**SMALL, "max_steps": 20},
        "note: wasted_groups at step 20: 100% of the groups",
        id="wasted groups",
    ),
    pytest.param(
        "return digits",
        {},
        {**SMALL, "max_steps": 10, "max_completion_length": 1},
        "warning: truncation at step 10: ",
        id="truncation",
    ),
    pytest.param(
        "return digits",
        {},
        {**SMALL, "max_steps": 12, "num_iterations": 4, "learning_rate": 0.05},
        "warning: far_from_sampler at step 10: ",
        id="clipped ratios",
    ),
    pytest.param(
        "return digits if calls > 20 else [0.5] * len(texts)",
        {},
        {**SMALL, "max_steps": 30, "beta": 0.001, "learning_rate": 0.1},
        "warning: kl_rise at step ",
        id="KL",
    ),
    pytest.param(
        "mean = sum(digits) / len(digits); return [one - mean for one in digits]",
        {},
        {"max_steps": 20, "learning_rate": 0.03},
        "warning: entropy_collapse at step ",
        id="entropy",
    ),
    pytest.param(
        "kept.append(bytearray(40_000_000)); kept[-1][::4096] = b'1' * len(kept[-1][::4096]); return digits",
        {},
        {**SMALL, "max_steps": 18},
        "note: memory_growth at step 18: the resident memory of process 0 grew",
        id="memory",
    ),
]


@pytest.mark.parametrize(("reward", "guards", "arguments", "line"), SPEAKING)
def test_a_guard_speaks_and_the_run_goes_on(
    reward: str, guards: Changes, arguments: Changes, line: str, run: Callable[..., Trained]
) -> None:
    name = line.split()[1]
    fault = "memory_that_is_compared_soon" if name == "memory_growth" else "nothing"
    spoken = run(reward, guards, arguments=arguments, fault=fault)
    assert spoken.exit_code == 0, spoken.output
    assert spoken.output.count(line) == 1
    (event,) = [event for event in events(spoken.folder, "guard") if event["name"] == name]
    assert (event["step"], event["count"]) == (spoken.guards()[name]["first_step"], 1)
    assert (spoken.folder / "final").exists()


def test_an_optimizer_that_stops_after_the_proofs_is_noticed(run: Callable[..., Trained]) -> None:
    stopped = run(
        "return digits", {"no_movement_steps": 4}, fault="optimizer_that_stops_later", arguments={"max_steps": 12}
    )
    assert stopped.exit_code == 3, stopped.output
    assert "no trained tensor changed in 4 steps whose rewards varied" in stopped.record["message"]
    assert stopped.guards()["no_movement"]["first_step"] == 8
    assert stopped.proofs()["PRF005"]["ok"] is True


def test_a_step_that_hangs_ends_the_run_and_leaves_the_stacks(run: Callable[..., Trained]) -> None:
    hangs = "time.sleep(60 if calls == 8 else 0); return digits"
    stopped = run(hangs, {"no_progress_seconds": 1, "no_progress_factor": 2}, arguments={**SMALL, "max_steps": 12})
    assert stopped.exit_code == -9, stopped.output
    assert (stopped.record["status"], stopped.record["exit_code"], stopped.record["step"]) == ("stopped", 3, 7)
    assert "no_progress: the guard stopped the run at step 8 [GRD006]" in stopped.record["message"]
    assert "mine.py:11 in mine" in stopped.record["message"]
    assert "warning: no_progress at step 8: a step has taken" in stopped.output
    assert stopped.guards()["no_progress"]["action"] == "stop"
    assert "mine.py" in (stopped.folder / "stalled" / "rank-0.txt").read_text()


# A mutex that is locked already: as a regular expression without end, it keeps the interpreter's lock, but it is idle.
BLOCKS = """
    if calls == 8:
        c, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
        c.pthread_mutex_lock(mutex)
        c.pthread_mutex_lock(mutex)
    return digits
"""


@pytest.mark.long
def test_code_that_keeps_the_lock_of_the_interpreter_is_ended_from_outside(run: Callable[..., Trained]) -> None:
    ended = run(BLOCKS, {"no_progress_seconds": 1, "no_progress_factor": 2}, arguments={**SMALL, "max_steps": 12})
    assert ended.exit_code == -9, ended.output
    assert (ended.record["status"], ended.record["exit_code"]) == ("stopped", 3)
    assert "no_progress: the guard stopped the run at step 8 [GRD006]" in ended.record["message"]
    assert "a step has taken " in ended.record["message"]
    assert ended.record["message"] in ended.output
    stacks = (ended.folder / "stalled" / "rank-0.txt").read_text()
    assert "mine.py" in stacks and "in mine" in stacks


def test_an_evaluation_that_hangs_is_said_and_a_first_step_that_does_ends_the_run(
    run: Callable[..., Trained], held_out: Callable[..., Changes], sums: Path
) -> None:
    hangs = "time.sleep({4: 60, 3: 6}.get(len(digits), 0)); return digits"
    evaluation = held_out(data=planned_data(sums, max_rows=3))
    small = {"arguments": {**SMALL, "max_steps": 12}, "evaluation": evaluation}
    stopped = run(hangs, {"no_progress_seconds": 1}, fault="activities_that_are_late_soon", **small)
    assert stopped.record["exit_code"] == 3, stopped.output
    assert "found    a step has taken 1" in stopped.record["message"], "twelve seconds"
    assert "s so far; it is at mine.py:11 in mine" in stopped.record["message"]
    late = (
        r"warning: no_progress at step 1: a batch of an evaluation has taken \d s so far; it is at mine.py:11 in mine"
    )
    assert re.search(late, stopped.output), stopped.output


@pytest.mark.long
def test_a_run_that_was_suspended_goes_on(run: Callable[..., Trained]) -> None:
    suspended = "os.kill(os.getpid(), signal.SIGSTOP) if calls == 8 else None; return digits"
    wakes = "subprocess.Popen(['sh', '-c', f'sleep 8; kill -CONT {os.getpid()}']) if calls == 8 else None; "
    woken = run(wakes + suspended, {"no_progress_seconds": 1}, arguments={**SMALL, "max_steps": 9})
    assert woken.exit_code == 0, woken.output
    assert woken.record["guards"] == []


def test_a_step_that_is_late_is_only_said_where_that_is_wanted(run: Callable[..., Trained]) -> None:
    late = "time.sleep(6 if calls == 8 else 0); return digits"
    guards = {"no_progress_seconds": 1, "no_progress_factor": 4, "no_progress": "warn"}
    spoken = run(late, guards, arguments={**SMALL, "max_steps": 9})
    assert spoken.exit_code == 0, spoken.output
    assert (spoken.guards()["no_progress"]["first_step"], spoken.guards()["no_progress"]["count"]) == (8, 1)


def test_an_alarm_that_repeats_is_said_at_the_first_and_the_tenth_time(run: Callable[..., Trained]) -> None:
    infinite = "return [float('inf') if calls > 1 else one for one in digits]"
    spoken = run(infinite, {"not_finite": "warn"}, arguments={**SMALL, "max_steps": 13})
    said = [line for line in spoken.output.splitlines() if line.startswith("warning: not_finite")]
    assert [line.split()[4] for line in said] == ["2:", "11:"], spoken.output
    assert spoken.guards()["not_finite"]["count"] == 12
    said = [event for event in events(spoken.folder, "guard") if event["name"] == "not_finite"]
    assert [(event["step"], event["count"]) for event in said] == [(2, 1), (11, 10)]


def test_processes_stop_together_when_one_has_a_loss_that_is_no_number(run: Callable[..., Trained]) -> None:
    stopped = run(fault="loss_that_is_no_number_on_rank_1", arguments={"per_device_train_batch_size": 8}, ranks=2)
    assert stopped.exit_codes == [3, 3], stopped.output
    assert "not_finite: the guard stopped the run at step 3" in stopped.record["message"]
    assert "found    a loss of nan" in stopped.record["message"]
    assert stopped.guards()["not_finite"]["first_step"] == 3


def test_a_resumed_run_goes_on_where_its_guards_were(run: Callable[..., Trained]) -> None:
    steps = {**SMALL, "save_strategy": "steps", "save_steps": 8, "max_steps": 20}
    guards = {"zero_variance_groups": 20, "wasted_groups": "off", "truncation_share": 0.5}
    # The same code in both processes, and in the second one the same values from its first step on.
    saved = "__import__('glob').glob(__file__.rpartition('/worker/')[0] + '/checkpoints/checkpoint-8')"
    learned = f"return [0.5] * len(texts) if calls > 2 or {saved} else digits"
    whole = run(learned, guards, arguments=steps)
    assert whole.exit_code == 0, whole.output
    for name in ("checkpoint-16", "checkpoint-20"):
        (whole.folder / "checkpoints" / name).rename(whole.folder / name)
    again = run(learned, guards, arguments=steps, folder=str(whole.folder), resume=True)
    assert again.exit_code == 0, again.output
    # Windows that were half full are full two steps later, and nothing is counted twice.
    assert (list(again.guards()), again.guards()) == (["truncation"], whole.guards())


def test_answers_that_earn_nothing_are_shown_before_the_first_step(
    run: Callable[..., Trained], held_out: Callable[..., Changes], sums: Path
) -> None:
    data = planned_data(sums, max_rows=24)
    few = run("return [0.0] * len(texts)", arguments={"max_steps": 1}, evaluation=held_out(data=data, batch_size=24))
    assert few.exit_code == 0, few.output
    (event,) = events(few.folder, "guard")
    assert (event["id"], event["name"], event["step"], event["action"]) == ("GRD001", "zero_variance", 0, "note")
    assert event["message"] == "0 of the 24 held-out rows earn any reward"
    assert event["because"][0].startswith("such as '") and event["because"][0].count("', '") == 2
    assert few.guards()["zero_variance"]["action"] == "note"
    assert "note: zero_variance at step 0: 0 of the 24 held-out rows earn any reward; such as '" in few.output
