"""The text of `grpo-run generate` says how the answers were made."""

import pytest

from grpo_recipes.report.trained_text import generate_text

ROW = {
    "prompt": "17+25=",
    "columns": {},
    "trained": {"completion": "32", "rewards": {}, "tokens": 3, "ended_by": "eos"},
}


@pytest.mark.parametrize("means", [{}, {"trained": {"reward": 0.5}}])
@pytest.mark.parametrize("greedy", [True, False])
def test_answers_that_were_sampled_say_so(greedy: bool, means: dict[str, dict[str, float]]) -> None:
    shown = {"rows": [{**ROW, "row": 0}], "data": "evaluation" if means else None, "without": [], "means": means}
    text = generate_text({**shown, "greedy": greedy})
    assert ("sampled as in training; --greedy takes the most likely tokens" in text) is not greedy
