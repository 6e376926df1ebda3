"""WLD008: how long process groups wait, by themselves and as the worker makes them."""

from pathlib import Path

import pytest
from library import Library, environment_of_ranks

pytestmark = pytest.mark.stack


def _seconds(library: Library, how: str, folder: Path) -> list[list[float]]:
    """How long the groups of each of two processes wait: the first, and one made afterwards."""
    environment = {**environment_of_ranks(), "ACCELERATE_USE_CPU": "true"}
    answer = library.call("in_two_processes.waits", how=how, folder=str(folder), environment=environment)
    assert answer.raised == "", answer
    waits: list[list[float]] = answer.result
    return waits


def test_on_the_cpu_ddp_timeout_reaches_no_group_by_itself(library: Library, tmp_path: Path) -> None:
    assert _seconds(library, "trl", tmp_path) == [[1800, 1800]] * 2


def test_the_worker_hands_it_to_every_group(library: Library, tmp_path: Path) -> None:
    assert _seconds(library, "worker", tmp_path) == [[77, 77]] * 2
