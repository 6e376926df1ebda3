"""RWD008: what a wrong name or a wrong option of a package's reward comes to."""

import pytest
from library import Library

pytestmark = pytest.mark.stack

ROWS = [{"prompt": [{"role": "user", "content": f"{n}+1="}], "solution": "2"} for n in range(8)]


@pytest.mark.parametrize(
    ("source", "raised"),
    [
        pytest.param("from trl.rewards import think_format as r", "ImportError", id="name"),
        pytest.param("from trl.reward import think_format_reward as r", "ModuleNotFoundError", id="module"),
        pytest.param(
            "from trl.rewards import get_soft_overlong_punishment as _m\nr = _m(max_length=64, soft_punish_cache=16)",
            "TypeError",
            id="option",
        ),
        pytest.param("from trl.rewards import get_cosine_scaled_reward as _m\nr = _m()", "TypeError", id="no option"),
        pytest.param("from trl import GRPOTrainer as _m\nr = _m()", "TypeError", id="class without an option"),
    ],
)
def test_a_wrong_name_or_option_raises(library: Library, source: str, raised: str) -> None:
    assert library.call("train", arguments={}, rewards=source, rows=ROWS).raised == raised


def test_a_factory_in_the_place_of_its_reward_raises_after_the_first_generation(library: Library) -> None:
    source = "from trl.rewards import get_soft_overlong_punishment as r"
    answer = library.call("train", arguments={}, rewards=source, rows=ROWS)
    assert (answer.stage, answer.raised) == ("train", "TypeError")


def test_an_option_that_nothing_reads_changes_nothing(library: Library) -> None:
    """Two names for one reward, of which one has an option that **kwargs swallows."""
    source = (
        "from trl.rewards import think_format_reward as _f\n"
        "def plain(**kwargs):\n    return _f(**kwargs)\n"
        "def scaled(**kwargs):\n    return _f(**{**kwargs, 'scale': 2})\n"
    )
    answer = library.call("train", arguments={}, rewards=source, rows=ROWS)
    assert answer.raised == ""
    steps = [step for step in answer.result["logs"] if "rewards/plain/mean" in step]
    assert steps
    assert all(step["rewards/plain/mean"] == step["rewards/scaled/mean"] for step in steps)
