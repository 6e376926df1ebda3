"""Groups without variance are redrawn with the same prompts on every release, also in a second epoch."""

import json
from pathlib import Path
from typing import Any

import pytest
from environments import NEWEST
from laboratory import Laboratory
from test_worker_on_stacks import inputs, made

pytestmark = pytest.mark.stacks
# The oldest that redraws, one that generates where it scores, one with a method for it, and the newest.
RESAMPLING = ("0.19.1/4.52.4", "0.23.1/4.57.6", "0.26.2/4.57.6", NEWEST)
STEPS = 7
FIGURES = ("resample/groups_redrawn", "resample/groups_left", "resample/rounds", "groups_without_variance")
# Every other letter is worth the same whatever is answered; the others by where in its group an answer stands.
MINE = """
import json
from pathlib import Path


def mine(prompts, completions, **kwargs):
    letters = [prompt if isinstance(prompt, str) else prompt[-1]["content"] for prompt in prompts]
    with Path(__file__).with_name("seen.jsonl").open("a") as file:
        file.write(json.dumps(letters) + "\\n")
    return [0.5 if ord(letter[-1]) % 2 else float(place % 2) for place, letter in enumerate(letters)]
"""


def drawn(stack: str, laboratory: Laboratory, folder: Path, **changes: Any) -> tuple[list[Any], list[list[float]]]:
    """The prompts of each call of the reward, and the figures of each step."""
    rows = inputs(folder / "rows")
    (rows / "mine.py").write_text(MINE)
    run = made(
        stack,
        folder / "it",
        rows,
        rewards=[{"python": f"{rows / 'mine.py'}:mine"}],
        grpo={"num_generations": 2, "resample_groups": 2, **changes},
        training={"max_steps": STEPS},
    )
    outcome = laboratory.run(stack, "trained_runs.samples", run_folder=str(run.folder))
    assert outcome.result is not None and outcome.result["exit_code"] == 0, outcome.output[-4000:]
    assert run.folder is not None
    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["event"] == "step"]
    calls = (run.folder / "worker" / "user" / "seen.jsonl").read_text().splitlines()
    return [json.loads(call) for call in calls], [[step[name] for name in FIGURES] for step in steps]


@pytest.fixture(scope="session")
def newest(laboratory: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Any], list[list[float]]]:
    """What the newest release draws."""
    return drawn(RESAMPLING[-1], laboratory, tmp_path_factory.mktemp("newest"), beta=0.0)


@pytest.mark.parametrize("beta", [0.0, 0.1], ids=["without a reference", "with a reference"])
@pytest.mark.parametrize("stack", RESAMPLING)
def test_the_same_groups_are_drawn(
    stack: str, beta: float, newest: tuple[list[Any], list[list[float]]], laboratory: Laboratory, tmp_path: Path
) -> None:
    assert drawn(stack, laboratory, tmp_path, beta=beta) == newest
    assert len(newest[1]) == STEPS < len(newest[0])
