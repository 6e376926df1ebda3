"""TRN007: at a rate that is warned of the quickstart's model forgets everything, and only the reward says so."""

import json
import math
from itertools import islice
from pathlib import Path

import pytest
from library import Answer, Library

from grpo_recipes.rules.learning_rate_leaves_the_model import RUIN, RUIN_OF_ADAPTERS, RUIN_OF_WIDE

pytestmark = pytest.mark.stack

QUICKSTART = Path(__file__).parents[2] / "recipes" / "quickstart"
LORA = {"r": 16, "target_modules": "all-linear"}
RIGHT = """
def right(completions, answer, **_):
    return [float(said[0]["content"].strip() == known) for said, known in zip(completions, answer)]
"""


def _trained(library: Library, rate: float, optim: str, lora: dict[str, object] | None) -> Answer:
    with (QUICKSTART / "train.jsonl").open() as file:
        rows = [json.loads(line) for line in islice(file, 32)]
    sizes = {"max_steps": 12, "per_device_train_batch_size": 32, "num_generations": 8, "max_completion_length": 6}
    return library.call(
        "train",
        arguments={**sizes, "learning_rate": rate, "optim": optim, "beta": 0.0},
        model=str(QUICKSTART / "model"),
        rows=[{"prompt": [{"role": "user", "content": row["question"]}], "answer": str(row["answer"])} for row in rows],
        rewards=RIGHT,
        lora=lora,
    )


def _rewards(answer: Answer) -> list[float]:
    assert answer.raised == "", answer.text
    return [step["rewards/right/mean"] for step in answer.result["logs"] if "rewards/right/mean" in step]


@pytest.mark.parametrize("optim", ["adamw_torch", "adafactor"])
@pytest.mark.parametrize(
    "lora",
    [None, {**LORA, "lora_alpha": 32}, {**LORA, "lora_alpha": 32, "r": 1}, {**LORA, "lora_alpha": 32, "r": 64}],
    ids=["full", "lora", "rank 1", "rank 64"],
)
def test_a_rate_that_is_warned_of_takes_what_was_there(
    library: Library, lora: dict[str, object] | None, optim: str
) -> None:
    answer = _trained(library, RUIN if lora is None else RUIN_OF_ADAPTERS / 32, optim, lora)
    first, *_, last = _rewards(answer)
    assert first > 0.2
    assert last < first / 2
    logged = [step[name] for step in answer.result["logs"] for name in ("loss", "grad_norm") if name in step]
    assert all(math.isfinite(value) for value in logged)


@pytest.mark.parametrize(
    ("rate", "lora"),
    [(0.01, {"lora_alpha": 8}), (2e-3, {"r": 1, "lora_alpha": 32, "use_rslora": True})],
    ids=["a small scale", "a large scale of a low rank"],
)
def test_an_adapter_whose_output_changes_less_bears_the_rate(
    library: Library, rate: float, lora: dict[str, object]
) -> None:
    first, *_, last = _rewards(_trained(library, rate, "adamw_torch", {**LORA, **lora}))
    assert min(first, last) > 0.2


def test_the_same_rate_is_small_for_sgd(library: Library) -> None:
    first, *_, last = _rewards(_trained(library, 2e-2, "sgd", None))
    assert min(first, last) > 0.2


def test_no_published_rate_is_one_that_is_warned_of() -> None:
    published = Path(__file__).parents[1] / "fuzz" / "published_configurations.jsonl"
    fields = [json.loads(line)["fields"] for line in published.read_text(encoding="utf-8").splitlines()]
    rates = [float(one["learning_rate"]) for one in fields if "learning_rate" in one]
    assert 0 < max(rates) < RUIN_OF_WIDE
