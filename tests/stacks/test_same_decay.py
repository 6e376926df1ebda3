"""The shim `weight_decay_names` (SHM018): weight decay is for the same tensors on older releases and on the newest."""

from pathlib import Path

import pytest
from environments import STACKS
from laboratory import Laboratory
from test_failures_are_answered import inputs, made  # noqa: F401

pytestmark = pytest.mark.stacks

DECAY = {"weight_decay": 0.1}


@pytest.mark.parametrize(
    ("stack", "without"),
    [("0.14.0/4.48.3", ()), ("0.14.0/4.48.3", ("weight_decay_names",)), ("0.19.1/4.52.4", ()), (STACKS[-1], ())],
)
def test_biases_and_norms_are_spared(
    stack: str,
    without: tuple[str, ...],
    inputs: Path,  # noqa: F811
    laboratory: Laboratory,
    tmp_path: Path,
) -> None:
    it = made(stack, inputs, tmp_path / "it", training=DECAY, without=without)
    assert it.errors == ()
    assert ("weight_decay_names" in it.shims) == (stack != STACKS[-1] and without == ())
    outcome = laboratory.run(stack, "trained_runs.decayed", run_folder=str(it.folder))
    assert outcome.result is not None and outcome.result["exit_code"] == 0, outcome.output[-4000:]
    decayed = outcome.result["decayed"]
    norms = [name for name in decayed if "norm" in name]
    assert len(decayed) - len(norms) == 1 + 2 * 7  # the embeddings, and the matrices of two layers
    assert bool(norms) == bool(without)
