"""RWD001: how TRL calls a reward function."""

import pytest
from library import Library

from grpo_recipes.rules.reward_source_is_there import CALLED_WITH

pytestmark = pytest.mark.stack

ROWS = [{"prompt": f"{n}+1=", "solution": "2"} for n in range(8)]


def test_trl_passes_what_the_rule_says_and_every_column(library: Library) -> None:
    source = "def kept(**kwargs):\n    raise RuntimeError(' '.join(sorted(kwargs)))"
    answer = library.call("train", arguments={}, rewards=source, rows=ROWS)
    assert answer.raised == "RuntimeError"
    assert set(CALLED_WITH) | {"solution"} <= set(answer.text.split())


@pytest.mark.parametrize(
    ("signature", "text"),
    [
        pytest.param("completions", "unexpected keyword argument", id="no-keywords"),
        pytest.param("completions, /, **kwargs", "missing 1 required positional argument", id="by-position"),
        pytest.param("prompts, completions, solution", "unexpected keyword argument", id="known-columns-only"),
    ],
)
def test_another_signature_raises_after_the_first_generation(library: Library, signature: str, text: str) -> None:
    source = f"def reward({signature}):\n    return [0.0] * len(completions)"
    answer = library.call("train", arguments={}, rewards=source, rows=ROWS)
    assert (answer.stage, answer.raised) == ("train", "TypeError")
    assert text in answer.text
