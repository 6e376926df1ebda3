"""Keeps unmarked tests from starting processes or importing a training stack: they form `make test-unit`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

# Markers of tests that may start processes.
MAY = ("processes", "stack", "stacks", "fuzz", "distributed", "hostile", "survival", "slurm", "vllm")
# Fixtures that start processes; tests that use them are marked.
STARTING = ("small_disk", "failing_disk", "warm_python", "mark")
_STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system")
_is_watched = False


def mark_by_fixtures(items: list[pytest.Item]) -> None:
    """Marks tests whose fixtures start processes."""
    for item in items:
        if not set(STARTING).isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("processes")


@contextmanager
def watched(item: pytest.Item) -> Iterator[None]:
    """Makes the test fail if it starts a process, unless a marker allows it."""
    global _is_watched
    _is_watched = not any(item.get_closest_marker(name) for name in MAY)
    try:
        yield
    finally:
        _is_watched = False


def _seen(event: str, given: tuple[object, ...]) -> None:
    if not _is_watched:
        return
    if event in _STARTS:
        raise RuntimeError(f"{event}: a test without the marker `processes` must not start processes")
    if event == "import" and given[0] == "torch":
        raise RuntimeError("a test without the marker `stack` must not import torch")


sys.addaudithook(_seen)
