"""Entropy, kl and clip ratios are means over a step's trained tokens on several releases and processes.

tests/worker/test_token_figures.py has the newest release.
"""

from typing import Any

import pytest
from environments import NEWEST
from laboratory import Laboratory

pytestmark = pytest.mark.stacks
LENGTHS = [12, 12, 12, 12, 3, 9, 12, 12, 5, 12, 12, 7, 12]
MASKED = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 8, "mask_truncated_completions": True}
TWICE = {**MASKED, "num_iterations": 2, "lengths": LENGTHS}
CASES: dict[str, dict[str, Any]] = {
    "bnpo": {**TWICE, "loss_type": "bnpo"},
    "grpo": {**TWICE, "loss_type": "grpo"},
    "once": {**TWICE, "loss_type": "dr_grpo", "num_iterations": 1},
    "nothing trained": {**TWICE, "loss_type": "grpo", "lengths": [12]},
}
NEWER: dict[str, dict[str, Any]] = {
    "sorted": {**TWICE, "loss_type": "grpo", "shim": "sorted"},
    "sequence ratios": {**TWICE, "loss_type": "grpo", "importance_sampling_level": "sequence"},
}


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize(("stack", "more"), [("0.19.1/4.52.4", {}), ("0.26.2/4.57.6", NEWER), (NEWEST, NEWER)])
def test_the_figures_are_those_of_the_rows(
    stack: str, more: dict[str, Any], ranks: int, laboratory: Laboratory
) -> None:
    outcome = laboratory.run(stack, "figure_experiments.compared", ranks=ranks, cases=CASES | more)
    assert outcome.result is not None, outcome.told
    for name, found in outcome.result.items():
        for logged, rows in zip(found["logged"], found["rows"], strict=True):
            own = {key: value for key, value in logged.items() if key in ("entropy", "kl") or key[:11] == "clip_ratio/"}
            assert own.keys() >= rows.keys()
            assert {key: own[key] for key in rows} == pytest.approx(rows, rel=1e-4, abs=1e-6), name
            assert rows or not own
            if (cut := logged.get("completions/clipped_ratio")) is not None:
                assert cut == logged["completions/ended_by_length"]
        assert 0 in found["tokens"] or name == "once"
