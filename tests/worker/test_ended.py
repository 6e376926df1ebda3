"""How the completions of a step ended is in its figures, on every backend computed from what is trained."""

from collections.abc import Callable
from pathlib import Path

import pytest
from worker_runs import Changes, Trained, events, planned_reward

pytestmark = pytest.mark.stack

EOS = 2
WAYS = ("stop", "eos", "length")

# Of the tokenizer of single characters: "0" is 3, "a" is 15.
ROWS = [
    pytest.param([3, 4, 5], ("length", False), id="nothing ended it"),
    pytest.param([3, 4, EOS], ("eos", False), id="its own end"),
    pytest.param([15, 16], ("stop", False), id="a stop string of two tokens"),
    pytest.param([3, 15, 16], ("stop", False), id="at the last position"),
    pytest.param([3, 9], ("stop", False), id="a stop by its number"),
    pytest.param([15, 3, 16], ("length", False), id="the text in parts"),
    pytest.param([], ("length", False), id="left out of the loss"),
    pytest.param([15, 16, 3], ("length", True), id="text after the stop"),
    pytest.param([15, 16, EOS], ("eos", True), id="its own end after the stop"),
    pytest.param([3, EOS, 3], ("length", True), id="text after its own end"),
    pytest.param([9, 15, 16], ("stop", True), id="a stop after a stop"),
    pytest.param([3] * 3000 + [15, 16], ("stop", False), id="at the end of a long one"),
]


@pytest.mark.parametrize(("ids", "expected"), ROWS)
def test_what_ended_a_completion(ids: list[int], expected: tuple[str, bool], tiny_model: Path) -> None:
    from transformers import AutoTokenizer

    from grpo_recipes.worker.ends.ends import Ends, how_ended

    ends = Ends((EOS, 9), ("ab",), AutoTokenizer.from_pretrained(tiny_model), frozenset({EOS}))
    assert how_ended(ids, ends) == expected


def test_each_step_says_how_its_completions_ended(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    digits = {"gradient_accumulation_steps": 2, "steps_per_generation": 2, "max_steps": 3, "logging_steps": 1}
    plan = make_plan("lora", arguments=digits, shims={"completion_ends": True})
    plan["expect"] |= {"stop": ["1", "2", "34"], "stop_token_ids": [8], "arguments": {}}
    run = trained(plan)
    assert run.exit_code == 0, run.output
    steps = events(run.folder, "step")
    assert len(steps) == 3
    for step in steps:
        shares = [step[f"completions/ended_by_{way}"] for way in WAYS]
        assert sum(shares) == pytest.approx(1)
        assert shares[0] > 0 and shares[2] > 0
        assert step["completions/ended_by_length"] == pytest.approx(step["completions/clipped_ratio"])
        assert step["completions/with_tokens_after_end"] == 0


# Notes the last token of each completion.
NOTING = """
import pathlib

def noting(completion_ids, **columns):
    with open(pathlib.Path(__file__).with_name("last.txt"), "a") as file:
        file.write("".join(f"{ids[-1]}\\n" for ids in completion_ids))
    return [float(len(ids)) for ids in completion_ids]
"""


def test_processes_share_their_figures(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained], sha256_of_text: Callable[[str], str]
) -> None:
    reward = planned_reward("mine.py:noting", kind="python", name="noting", sha256=sha256_of_text(NOTING))
    plan = make_plan("lora", arguments={"max_steps": 2, "per_device_train_batch_size": 8}, rewards=[reward])
    plan["expect"] |= {"arguments": {}, "world_size": 2}
    plan["world"]["num_processes"] = 2
    run = trained(plan, ranks=2, user={"mine.py": NOTING})
    assert run.exit_codes == [0, 0], run.output
    last = (run.folder / "worker" / "user" / "last.txt").read_text().split()
    for place, step in enumerate(events(run.folder, "step")):
        ended = last[16 * place : 16 * place + 16].count(str(EOS)) / 16
        assert step["completions/ended_by_eos"] == pytest.approx(ended)
        assert step["completions/ended_by_length"] == pytest.approx(1 - ended)
