"""The shim max_prompt_length in a run of the worker: prompts are cut, counted, and the end says how many.

Which tokens stay, on every release, is in tests/stacks/test_max_prompt_length.py.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worker_runs import Changes, events, train

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("warm")]


@pytest.mark.parametrize(("length", "ratio"), [(100, 0.0), (4, 1.0)], ids=["none is longer", "all are longer"])
def test_a_run_says_how_many_prompts_were_cut(
    make_plan: Callable[..., Changes], make_run: Callable[..., Path], length: int, ratio: float
) -> None:
    folder = make_run(make_plan(arguments={"max_steps": 2}, shims={"max_prompt_length": length}))
    code, output = train(folder)
    assert code == 0, output
    assert [step["prompts/clipped_ratio"] for step in events(folder, "step")] == [ratio, ratio]
    assert f"{4 * ratio:.0f} of 4 prompts were cut to their last {length} tokens" in output


def test_what_a_processor_adds_to_the_tokens_is_not_cut_in_silence() -> None:
    from grpo_recipes.worker._shared.inputs import Refused
    from grpo_recipes.worker.shims import max_prompt_length

    def tokenize(prompts: Any) -> Any:
        return [[1, 2, 3]], None, {"pixel_values": [[0.0]]}

    cutting = max_prompt_length._tokenizing(tokenize, max_prompt_length._Cut(None, 2))
    with pytest.raises(Refused, match="pixel_values would not match"):
        cutting(["a prompt with an image"])
