"""Guards speak on the oldest, a middle and the newest stack, each of which logs other figures."""

import json
from pathlib import Path
from typing import Any

import pytest
from environments import QUICK, STACKS
from laboratory import Laboratory
from test_worker_on_stacks import inputs, made

pytestmark = pytest.mark.stacks
# Before trl 0.16 each release needs its own form of the shim; tests/worker/test_equal_rewards.py has later ones.
ROUNDING = ("0.14.0/4.48.3", "0.15.2/4.48.3")


def guarded(
    laboratory: Laboratory, stack: str, folder: Path, reward: str, **changes: Any
) -> tuple[int, dict[str, Any]]:
    """The exit code of a run whose reward is one line, and its run.json. The prompts are in two groups of two."""
    rows = inputs(folder / "rows")
    calls = "calls = []\n\n\ndef mine(completions, **kwargs):\n    calls.append(1)\n"
    (rows / "mine.py").write_text(f"{calls}    count = len(completions)\n    {reward}\n")
    run = made(stack, folder / "it", rows, rewards=[{"python": f"{rows / 'mine.py'}:mine"}], **changes)
    outcome = laboratory.run(stack, "trained_runs.trained", run_folder=str(run.folder))
    assert outcome.result is not None, outcome.output[-4000:]
    assert run.folder is not None
    return outcome.result["exit_code"], json.loads((run.folder / "run.json").read_text())


@pytest.mark.parametrize("stack", QUICK)
def test_equal_rewards_and_cut_completions_are_seen(stack: str, laboratory: Laboratory, tmp_path: Path) -> None:
    exit_code, record = guarded(
        laboratory,
        stack,
        tmp_path,
        "return [0.5] * count",
        guards={"zero_variance_groups": 24, "truncation_share": 0.8},
        generation={"max_completion_length": 1},
        training={"max_steps": 12},
    )
    spoken = {guard["name"]: (guard["action"], guard["first_step"]) for guard in record["guards"]}
    assert (exit_code, record["exit_code"]) == (3, 3)
    assert "zero_variance: the guard stopped the run at step 12 [GRD001]" in record["message"]
    assert spoken == {"truncation": ("warn", 10), "zero_variance": ("stop", 12)}


CONSTANT = """
def one(completions, **kwargs):
    return [1.0] * len(completions)


def fifth(completions, **kwargs):
    return [{}] * len(completions)
"""


@pytest.mark.parametrize("without", [(), ("equal_rewards",)], ids=["shim", "as TRL does"])
@pytest.mark.parametrize("stack", ROUNDING)
def test_equal_sums_that_float32_rounds(
    stack: str, without: tuple[str, ...], laboratory: Laboratory, tmp_path: Path
) -> None:
    """1.0 and 0.2 in groups of eight; trl 0.14 has no weights of rewards."""
    is_oldest = stack.startswith("0.14.")
    rows = inputs(tmp_path / "rows")
    (rows / "mine.py").write_text(CONSTANT.format(0.2 if is_oldest else 1.0))
    names = {"one": 1.0, "fifth": 1.0 if is_oldest else 0.2}
    run = made(
        stack,
        tmp_path / "it",
        rows,
        rewards=[{"python": f"{rows / 'mine.py'}:{name}", "weight": weight} for name, weight in names.items()],
        guards={"zero_variance_groups": 24},
        grpo={"num_generations": 8, "beta": 0.0},
        training={"max_steps": 14, **({} if is_oldest else {"per_device_train_batch_size": 16})},
        without=without,
    )
    outcome = laboratory.run(stack, "trained_runs.samples", run_folder=str(run.folder))
    assert outcome.result is not None, outcome.output[-4000:]
    assert run.folder is not None
    record = json.loads((run.folder / "run.json").read_text())
    assert (outcome.result["exit_code"], record["status"]) == (3, "stopped"), record["message"]
    assert "zero_variance: the guard stopped the run at step 12 [GRD001]" in record["message"]
    assert (outcome.result["distance"] == 0) == (without == ()), outcome.result["distance"]


# In trl 0.14 each group has a loss of its own. One of so many is worth the same in all places.
CALLED = """
calls = []


def mine(completions, **kwargs):
    calls.append(1)
    return [1.2 if len(calls) % {} == 0 else float(place % 2) for place in range(len(completions))]
"""


@pytest.mark.parametrize("every", [2, 99], ids=["half of the groups", "none of them"])
def test_groups_with_variance_are_trained_as_trl_0_14_does(every: int, laboratory: Laboratory, tmp_path: Path) -> None:
    weights = {}
    for without in ((), ("equal_rewards",)):
        folder = tmp_path / str(len(without))
        rows = inputs(folder / "rows")
        (rows / "mine.py").write_text(CALLED.format(every))
        run = made(
            STACKS[0],
            folder / "it",
            rows,
            rewards=[{"python": f"{rows / 'mine.py'}:mine"}],
            grpo={"num_generations": 8, "beta": 0.04},
            training={"max_steps": 3},
            without=without,
        )
        outcome = laboratory.run(STACKS[0], "trained_runs.samples", run_folder=str(run.folder))
        assert outcome.result is not None and outcome.result["exit_code"] == 0, outcome.output[-4000:]
        assert outcome.result["distance"] > 0 and run.folder is not None
        weights[without] = (run.folder / "final" / "model.safetensors").read_bytes()
    assert (weights[()] == weights["equal_rewards",]) == (every == 99)


@pytest.mark.parametrize("stack", QUICK)
@pytest.mark.parametrize(
    ("reward", "rate", "step"),
    [
        pytest.param(
            "return [float('inf') if len(calls) > 3 else float(n) for n in range(count)]", 1e-3, None, id="inf"
        ),
        pytest.param("return [float(n) for n in range(count)]", 1e30, 2, id="a large rate"),
    ],
)
def test_what_is_not_finite_stops_the_run(
    reward: str, rate: float, step: int | None, stack: str, laboratory: Laboratory, tmp_path: Path
) -> None:
    training = {"max_steps": 6, "learning_rate": rate}
    exit_code, record = guarded(laboratory, stack, tmp_path, reward, training=training)
    (spoken,) = record["guards"]
    assert (exit_code, record["status"], spoken["name"]) == (3, "stopped", "not_finite"), record["message"]
    assert spoken["first_step"] == step or step is None
    assert record["final"] is None


@pytest.mark.parametrize("stack", QUICK)
def test_a_run_without_a_fault_hears_of_none(stack: str, laboratory: Laboratory, tmp_path: Path) -> None:
    reward = "return [-float(len(completion[0]['content'])) for completion in completions]"
    exit_code, record = guarded(laboratory, stack, tmp_path, reward, training={"max_steps": 12})
    assert (exit_code, record["guards"]) == (0, [])
    unseen = {"far_from_sampler", "entropy_collapse"} if stack == QUICK[0] else set()
    unseen |= {"entropy_collapse"} if stack == QUICK[1] else set()
    assert set(record["guards_not_seen"]) == unseen
