"""LOS009: normalize_then_sum gives the same advantages whatever scale_rewards says."""

import pytest
from library import Library

pytestmark = pytest.mark.stack

SOURCE = "def one(completions, **kwargs):\n    return [3.0 * len(set(text)) for text in completions]\n"
SOURCE += "def two(completions, **kwargs):\n    return [7.0 * text.count('1') for text in completions]"


@pytest.mark.parametrize(("aggregation", "scaled"), [("normalize_then_sum", True), ("sum_then_normalize", False)])
def test_scale_rewards_is_read_by_one_of_them(library: Library, aggregation: str, scaled: bool) -> None:
    arguments = {"multi_objective_aggregation": aggregation, "loss_type": "grpo", "learning_rate": 0.0}
    norms = [
        library.call("train", arguments={**arguments, "scale_rewards": scale}, rewards=SOURCE).result["logs"][0]
        for scale in ("none", "group")
    ]
    assert norms[0]["grad_norm"] > 0
    assert (norms[0]["grad_norm"] == norms[1]["grad_norm"]) == scaled
