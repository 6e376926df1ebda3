"""TRN002: what transformers makes of a schedule's arguments."""

from typing import Any

import pytest
from library import Answer, Library

from grpo_recipes.rules.schedule_has_its_arguments import WITH_EVALUATION, WITHOUT_ARGUMENTS, schedules
from grpo_recipes.stack.stack import installed_packages

pytestmark = pytest.mark.stack

WSD = "warmup_stable_decay"


def _schedule(library: Library, name: str, arguments: dict[str, Any] | None = None, **rest: Any) -> Answer:
    written = {"lr_scheduler_type": name, "lr_scheduler_kwargs": arguments, "learning_rate": 0.5, **rest}
    return library.call("in_training.schedule", arguments=written)


def test_the_table_is_what_the_installed_release_takes(library: Library) -> None:
    release, takes = schedules()
    if installed_packages()["transformers"] != release:
        pytest.skip(f"the table is of transformers {release}")
    found = library.call("in_training.schedule_arguments").result
    rest = {*WITH_EVALUATION, *WITHOUT_ARGUMENTS}
    assert {name: set(known) for name, known in found.items() if name not in rest} == {
        name: set(known) for name, known in takes.items()
    }
    assert rest == set(found) - set(takes)


@pytest.mark.parametrize("name", WITH_EVALUATION)
def test_a_schedule_that_follows_an_evaluation_is_refused_without_one(library: Library, name: str) -> None:
    answer = _schedule(library, name)
    assert (answer.raised, answer.stage) == ("ValueError", "config")
    assert "requires an eval strategy" in answer.text


@pytest.mark.parametrize(
    ("name", "arguments", "raised"),
    [
        ("cosine", {"min_lr": 1e-7}, "TypeError"),
        ("cosine", {"num_cycles": "half"}, "ValueError"),
        ("cosine_with_min_lr", None, "ValueError"),
        ("cosine_with_min_lr", {"min_lr": 1e-7, "min_lr_rate": 0.1}, "ValueError"),
        (WSD, None, "TypeError"),
        (WSD, {"num_decay_steps": 3, "decay_type": "sqrt"}, "ValueError"),
        ("polynomial", {"lr_end": 0.5}, "ValueError"),
    ],
)
def test_it_raises_when_the_schedule_is_made(
    library: Library, name: str, arguments: dict[str, Any] | None, raised: str
) -> None:
    answer = _schedule(library, name, arguments)
    assert (answer.raised, answer.stage) == (raised, "trainer"), answer


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("cosine_with_min_lr", {"min_lr_rate": 0.1}), (WSD, {"num_decay_steps": 3}), ("polynomial", {"lr_end": 0.1})],
)
def test_what_the_rule_lets_pass_is_made(library: Library, name: str, arguments: dict[str, Any]) -> None:
    assert _schedule(library, name, arguments).raised == ""


def test_constant_reads_neither_warm_up_nor_arguments(library: Library) -> None:
    assert _schedule(library, "constant", {"nonsense": 1}, warmup_steps=5).result == [0.5] * 10
    assert _schedule(library, "constant_with_warmup", {"nonsense": 1}, warmup_steps=5).result[:2] == [0.0, 0.1]


def test_a_warm_up_as_long_as_the_run_never_reaches_the_learning_rate(library: Library) -> None:
    assert max(_schedule(library, "linear", warmup_steps=10).result) < 0.5
    assert max(_schedule(library, "linear", warmup_steps=9).result) == 0.5
