"""Groups that vLLM completes are redrawn, and each completion that is kept comes with its own log-probabilities."""

from pathlib import Path

import pytest
from digit_first import APART, COLOCATE, SERVER, Record, train
from small_models import write_random

pytestmark = pytest.mark.vllm

MORE = {
    "grpo": {"resample_groups": 2, "beta": 0.05},
    # Of the eight rows half are the step's own; most groups of the first steps have no digit at all.
    "training": {"prompts_per_step": 4, "max_steps": 6},
}


@pytest.mark.parametrize(
    "generation", [pytest.param(COLOCATE, id="colocate"), pytest.param(SERVER, id="server", marks=pytest.mark.long)]
)
def test_what_is_kept_is_what_vllm_sampled(generation: Record, tmp_path: Path) -> None:
    model = write_random(tmp_path / "model")
    record, steps = train(tmp_path, model, generation, MORE)
    assert len(steps) == 6
    assert sum(step["resample/groups_redrawn"] for step in steps) > 0
    for step in steps:
        assert step["groups_without_variance"] == step["resample/groups_left"] / 4
        assert step["resample/prompts"] == 4 + step["resample/groups_redrawn"]
        assert step[APART] < 1e-5, "as far apart as without resampling"
    assert steps[0]["kl"] == pytest.approx(0, abs=1e-9)
    assert {proof["ok"] for proof in record["proofs"]} == {True}
