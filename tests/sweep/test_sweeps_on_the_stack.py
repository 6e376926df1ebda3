"""A sweep of real trainings: a value by two names is no difference, and a sweep that was killed comes to the same."""

import hashlib
import json
import os
import signal
from pathlib import Path

import pytest
from swept_runs import QUICKSTART, RATE, Swept, command, started, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.long]  # test_sweeps_go_on.py has stand-ins for trainings
SMALL = ("training.max_steps=2", "training.save_steps=1", "training.prompts_per_step=4", "evaluation.max_rows=4")
WORDS = (
    *("sweep", QUICKSTART, "--vary", f"{RATE}=2e-3,0.002", "--seeds", "2", "--out", "swept"),
    *(word for setting in SMALL for word in ("--set", setting)),
)


@pytest.fixture(scope="module")
def whole(warm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Swept:
    """A sweep that nothing disturbs."""
    done = command(warm_python / "python", tmp_path_factory.mktemp("whole"), *WORDS)
    assert done.code == 0, done.err
    return done


def weights(swept: Swept) -> list[str]:
    """The digests of what was trained, to the last bit."""
    files = [swept.folder / name / "final" / "adapter_model.safetensors" for name in swept.names]
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]


def test_two_names_of_one_value_are_no_difference(whole: Swept) -> None:
    one, other, *_ = digests = weights(whole)
    assert one == other
    assert len(set(digests)) == 2  # of two seeds
    assert "outcome: held-out reward after the last step" in whole.out
    assert "   0.000  no difference\n" in whole.out
    assert "no difference exceeds noise with 2 seeds: the settings have the same mean" in whole.out
    rows = (whole.folder / whole.names[0] / "evaluation" / "step-2.jsonl").read_text().splitlines()
    assert f"with the noise of {len(rows)} held-out rows" in whole.out


def test_a_sweep_that_was_killed_in_a_training_ends_with_the_same_weights(
    whole: Swept, warm_python: Path, tmp_path: Path
) -> None:
    python = warm_python / "python"
    killed = started(python, tmp_path, *WORDS)
    second = tmp_path / "swept" / whole.names[1]
    wait_until(lambda: [*second.glob("checkpoints/checkpoint-1")], killed)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert json.loads((second / "run.json").read_text())["status"] == "running"
    on = command(python, tmp_path, "swept")
    assert on.code == 0, on.err
    assert "1 of them finished earlier" in on.err
    assert "resumed from checkpoint-1" in on.err
    assert weights(on) == weights(whole)
    assert on.out == whole.out
