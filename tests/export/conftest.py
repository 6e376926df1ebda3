"""Runs that are trained once for all tests here, and the command that exports them."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from export_runs import Answer, command, trained


@pytest.fixture(scope="session")
def run_of(warm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns the run folder of a kind; each kind is trained once."""
    return functools.cache(lambda kind: trained(warm_python, kind, tmp_path_factory.mktemp("runs") / kind))


@pytest.fixture(scope="session")
def exported(
    warm_python: Path, run_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., tuple[Path, dict[str, Any]]]:
    """Returns the folder and the output of an export with a test's arguments; each export is made once."""

    @functools.cache
    def make(kind: str, *words: str) -> tuple[Path, dict[str, Any]]:
        place = tmp_path_factory.mktemp("exports") / "exported"
        done = command(warm_python, "export", run_of(kind), "-o", place, "--json", *words)
        assert done.code == 0, done.out + done.err
        assert list(place.parent.iterdir()) == [place]
        return place, done.json()

    return make


@pytest.fixture
def export(warm_python: Path) -> Callable[..., Answer]:
    """Runs `grpo-run export` with a test's arguments."""
    return functools.partial(command, warm_python, "export")
