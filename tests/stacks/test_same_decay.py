"""Weight decay is for the same tensors on every stack, through the shim `weight_decay_names` on older ones."""

from pathlib import Path

import pytest
from environments import STACKS
from laboratory import Laboratory
from test_failures_are_answered import inputs, made  # noqa: F401

pytestmark = pytest.mark.stacks

DECAY = {"weight_decay": 0.1}


@pytest.mark.parametrize("stack", STACKS)
def test_biases_and_norms_are_spared(
    stack: str,
    inputs: Path,  # noqa: F811
    laboratory: Laboratory,
    tmp_path: Path,
) -> None:
    it = made(stack, inputs, tmp_path / "it", training=DECAY)
    assert it.errors == ()
    assert ("weight_decay_names" in it.shims) == (STACKS.index(stack) < STACKS.index("0.21.0/4.55.4"))
    outcome = laboratory.run(stack, "trained_runs.decayed", run_folder=str(it.folder))
    assert outcome.result is not None and outcome.result["exit_code"] == 0, outcome.output[-4000:]
    decayed = outcome.result["decayed"]
    assert len(decayed) == 1 + 2 * 7  # the embeddings, and the matrices of two layers
    assert not [name for name in decayed if "norm" in name or name.endswith("bias")]
