"""The time of a step is that of a usual one, and the time left follows from it."""

import itertools
import re
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from worker_runs import Changes, events, record, train

from grpo_recipes.contract.event_words import phase_line
from grpo_recipes.worker._shared.record import Record

pytestmark = pytest.mark.stack
PLAN = SimpleNamespace(world=SimpleNamespace(device="cpu"), vllm=None, stack={})
ALONE = SimpleNamespace(num_iterations=1, steps_per_generation=4, gradient_accumulation_steps=4)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which stands still but for what is added to it."""
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


class NoMemory:
    """Measures no memory, to leave the clock to the test."""

    name = "none"

    def take(self) -> Any:
        from grpo_recipes.worker.memory.phase_peaks import Peak

        return Peak(0)


def _timed(
    folder: Path,
    clock: list[float],
    arguments: Any,
    steps: list[tuple[float, float]],
    of: int,
    elsewhere: list[float],
    plan: Any = None,
) -> tuple[Any, Any]:
    """What has seen these steps, each with seconds of generation and of the rest, of a run of so many; its state."""
    from grpo_recipes.worker.callbacks.progress import StepTimes
    from grpo_recipes.worker.memory.phase_peaks import PhasePeaks

    kept, peaks = Record(folder, 0), PhasePeaks(NoMemory(), {})  # type: ignore[arg-type]
    kept.start(resumed=False)
    times = StepTimes(plan or PLAN, kept, peaks, lambda: elsewhere[0])
    state = SimpleNamespace(global_step=0, max_steps=of)
    peaks.begin("update")
    times.on_train_begin(arguments, state, None)
    for generating, rest in steps:
        if generating:
            with peaks.during("generate"):
                clock[0] += generating
        clock[0] += rest
        state.global_step += 1
        times.on_step_end(arguments, state, None)
    return times, state


def test_the_first_step_and_one_that_was_held_up_do_not_count(tmp_path: Path, clock: list[float]) -> None:
    steps = [(50.0, 10.0), (1.5, 0.5), (1.5, 0.5), (1.5, 100.0), (1.5, 0.5)]
    times, state = _timed(tmp_path, clock, ALONE, steps, of=25, elsewhere=[0.0])
    assert times.seconds_of_a_step() == pytest.approx(2.0)
    assert times.seconds_left(state) == pytest.approx(20 * 2.0)


def test_the_first_step_is_all_that_is_known_after_it(tmp_path: Path, clock: list[float]) -> None:
    times, state = _timed(tmp_path, clock, ALONE, [(4.0, 1.0)], of=3, elsewhere=[0.0])
    assert times.seconds_left(state) == pytest.approx(10.0)
    nothing, state = _timed(tmp_path, clock, ALONE, [], of=3, elsewhere=[0.0])
    assert nothing.seconds_left(state) is None


def test_steps_that_share_a_generation_are_timed_as_one(tmp_path: Path, clock: list[float]) -> None:
    """Else the median would be a step that generates nothing."""
    shared = SimpleNamespace(num_iterations=2, steps_per_generation=8, gradient_accumulation_steps=4)
    steps = [(9.0, 1.0), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0)] * 3
    times, _ = _timed(tmp_path, clock, shared, steps, of=20, elsewhere=[0.0])
    assert times.seconds_of_a_step() == pytest.approx(13.0 / 4)


def test_evaluations_are_left_out(tmp_path: Path, clock: list[float]) -> None:
    elsewhere = [0.0]
    times, state = _timed(tmp_path, clock, ALONE, [(1.0, 1.0), (1.0, 1.0)], of=4, elsewhere=elsewhere)
    clock[0] += 500.0
    elsewhere[0] += 500.0
    clock[0] += 2.0
    times.on_step_end(ALONE, state, None)
    assert times.seconds_of_a_step() == pytest.approx(2.0)


def test_the_record_tells_after_twenty_steps_and_at_the_end(tmp_path: Path, clock: list[float]) -> None:
    steps = [(3.0, 1.0)] * 19
    times, state = _timed(tmp_path, clock, ALONE, steps, of=40, elsewhere=[0.0])
    assert record(tmp_path)["duration"] is None
    state.global_step += 1
    clock[0] += 4.0
    times.on_step_end(ALONE, state, None)
    told = record(tmp_path)["duration"]
    assert (told["steps"], told["seconds_per_step"]) == (20, 4.0)
    assert told["shares"] == {
        "generate": pytest.approx(3 * 18 / (4 * 19), abs=1e-4),
        "update": pytest.approx(22 / 76, abs=1e-4),
    }
    assert told["estimated_end"] > record(tmp_path)["started"]
    times.on_train_end(ALONE, state, None)
    assert record(tmp_path)["duration"]["estimated_end"] is None


@pytest.mark.parametrize(
    ("device", "vllm", "step", "begins"),
    [
        ("cuda", None, (3.0, 1.0), ["generation takes 75% of a step. generation.use_vllm: true"]),
        ("cuda", None, (1.0, 1.5), []),
        ("cuda", None, (0.3, 0.1), []),
        ("cuda", "engine", (3.0, 1.0), []),
        ("cpu", None, (3.0, 1.0), []),
    ],
)
def test_generation_without_vllm_on_a_gpu_is_named(
    tmp_path: Path, clock: list[float], device: str, vllm: str | None, step: tuple[float, float], begins: list[str]
) -> None:
    plan = SimpleNamespace(world=SimpleNamespace(device=device), vllm=vllm, stack={"vllm": "0.31.0"})
    times, state = _timed(tmp_path, clock, ALONE, [step] * 3, of=3, elsewhere=[0.0], plan=plan)
    times.on_train_end(ALONE, state, None)
    lines = record(tmp_path)["duration"]["advice"]
    assert [line.partition(" lets")[0] for line in lines] == begins
    assert all("vllm 0.31.0 is installed" in line for line in lines)


def test_slow_rewards_are_named() -> None:
    from grpo_recipes.worker.callbacks.time_advice import advise

    assert [line[:28] for line in advise(PLAN, 4.0, {"update": 0.7, "reward": 0.3})] == ["rewards take 30% of a step. "]
    assert advise(PLAN, 4.0, {"update": 0.9, "reward": 0.1}) == []


PHASES = [
    "checking the files",
    "importing the libraries",
    "preparing the data",
    "loading the model",
    "generating the first completions",
    "scoring the first completions",
    "the first update",
]


@pytest.mark.usefixtures("warm")
def test_a_run_times_its_steps(make_plan: Callable[..., Changes], make_run: Callable[..., Path]) -> None:
    folder = make_run(make_plan(arguments={"max_steps": 21}, memory=None))
    began = time.monotonic()
    exit_code, output = train(folder)
    whole = time.monotonic() - began
    assert exit_code == 0, output
    told = record(folder)["duration"]
    assert (told["steps"], told["estimated_end"]) == (21, None)
    assert 0 < 21 * told["seconds_per_step"] < whole
    shares = told["shares"]
    assert shares.keys() >= {"generate", "update", "reward"} and 0.9 < sum(shares.values()) <= 1.001, shares
    assert list(shares.values()) == sorted(shares.values(), reverse=True) and told["advice"] == []
    times = [event["time"] for event in events(folder, "step")]
    between = sorted(after - before for before, after in itertools.pairwise(times))
    assert told["seconds_per_step"] == pytest.approx(between[len(between) // 2], rel=0.5)
    assert re.search(r"(?m)^step 1/21  reward .*  eta 0:", output)
    phases = record(folder)["phases"]
    assert [phase["name"] for phase in phases] == PHASES
    assert [line for line in output.splitlines() if line in map(phase_line, phases)] == [*map(phase_line, phases)]
    assert 0 < sum(phase["seconds"] for phase in phases) < whole
    assert re.search(r"(?m)^step 21/21  reward .*  eta 0:00:00$", output)
