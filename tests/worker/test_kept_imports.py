"""Imports without the collector of unused objects."""

import gc
from collections.abc import Iterator

import pytest

from grpo_recipes.worker._shared.imports import kept_imports


@pytest.fixture(autouse=True)
def usual_collector() -> Iterator[None]:
    yield
    gc.enable()
    gc.unfreeze()


def test_nothing_is_collected_meanwhile_and_what_stays_is_never_looked_through() -> None:
    gc.unfreeze()
    with kept_imports():
        assert not gc.isenabled()
        made = [[] for _ in range(1000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() > len(made)
    assert not any(each is made for each in gc.get_objects())


def test_what_comes_later_is_collected() -> None:
    with kept_imports():
        pass
    circle: list[object] = []
    circle.append(circle)
    del circle
    assert gc.collect() >= 1


def test_an_import_that_fails_leaves_the_collector_on() -> None:
    with pytest.raises(ModuleNotFoundError), kept_imports():
        raise ModuleNotFoundError("No module named 'trl'")
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with kept_imports():
        pass
    assert not gc.isenabled()
