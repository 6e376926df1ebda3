"""Imports without the collector of unused objects."""

import gc
import weakref
from collections.abc import Callable, Iterator

import pytest
from worker_runs import Changes, Trained

from grpo_recipes.worker._shared.imports import keep_imports


class Circle:
    own: object = None


@pytest.fixture(autouse=True)
def usual_collector() -> Iterator[None]:
    gc.enable()  # the command line turns it off where an earlier test imports it
    yield
    gc.enable()
    gc.unfreeze()


def test_nothing_is_collected_meanwhile_and_what_stays_is_never_looked_through() -> None:
    gc.unfreeze()
    with keep_imports():
        assert not gc.isenabled()
        made = [[] for _ in range(1000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() > len(made)
    assert not any(each is made for each in gc.get_objects())


def test_what_comes_later_is_collected() -> None:
    with keep_imports():
        pass
    circle = Circle()
    circle.own = circle
    seen = weakref.ref(circle)
    del circle
    gc.collect()
    assert seen() is None


def test_an_import_that_fails_leaves_the_collector_on() -> None:
    with pytest.raises(ModuleNotFoundError), keep_imports():
        raise ModuleNotFoundError("No module named 'trl'")
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with keep_imports():
        pass
    assert not gc.isenabled()


COUNTS = """
import gc
def frozen(completions, **kwargs):
    assert gc.isenabled()
    assert gc.get_freeze_count() > 200_000, gc.get_freeze_count()
    return [float(len(completion[0]["content"]) % 2) for completion in completions]
"""


@pytest.mark.stack
def test_a_training_looks_through_nothing_of_the_stack(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained], sha256_of_text: Callable[[str], str]
) -> None:
    file = {"kind": "python", "target": "rewards.py:frozen", "path": "/rewards.py", "sha256": sha256_of_text(COUNTS)}
    plan = make_plan(
        rewards=[{"name": "frozen", "weight": 1.0, "kwargs": {}, "imports": {}, "package": None, "not_of": [], **file}]
    )
    run = trained(plan, user={"rewards.py": COUNTS})
    assert run.exit_code == 0, run.output
