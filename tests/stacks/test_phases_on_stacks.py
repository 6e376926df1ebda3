"""The worker knows the phases of a training on every stack, and measures each."""

import json
from pathlib import Path

import pytest
from environments import STACKS
from laboratory import Laboratory
from test_worker_on_stacks import inputs, made, trained

pytestmark = pytest.mark.stacks

PHASES = {"load", "generate", "score", "update", "save"}


@pytest.mark.parametrize("stack", STACKS)
def test_each_phase_that_a_release_tells_apart_has_a_peak(stack: str, laboratory: Laboratory, tmp_path: Path) -> None:
    run = made(stack, tmp_path / "run", inputs(tmp_path / "rows"))
    trained(laboratory, stack, run)
    assert run.folder is not None
    memory = json.loads((run.folder / "run.json").read_text())["memory"]
    scores = "score" in memory
    # The oldest does all of it in one method; up to 0.18 log-probabilities alone are told apart, where there are some.
    assert not scores if stack.startswith("0.14.") else scores or stack.startswith(("0.15.", "0.16."))
    assert set(memory) - {"score"} == PHASES - {"score"}
    assert all(phase["measured"] > 1 << 26 for phase in memory.values())
