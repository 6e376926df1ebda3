"""Sets how many runs are killed: `--survival quick` once for each kind of run, `--survival full` twenty times."""

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "worker"))  # what a run leaves

from killed_runs import finished


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--survival", choices=("quick", "full"), default="quick", help="how often runs are killed")
    parser.addoption("--survival-seed", type=int, default=0, metavar="NUMBER", help="other moments than the usual ones")


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of all moments."""
    return int(request.config.getoption("--survival-seed"))


@pytest.fixture(scope="session")
def left_alone(warm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], Path]:
    """Returns the folder of an undisturbed run of a kind and length, made once."""

    @cache
    def made(kind: str, steps: int) -> Path:
        place = tmp_path_factory.mktemp(kind) / "whole"
        place.mkdir()
        return finished(kind, steps, place, str(warm_python / "python"))

    return made


@pytest.fixture(scope="session")
def python(is_full: bool, warm_python: Path) -> str:
    """The Python of the runs that are disturbed: one with the libraries imported if quick is requested."""
    return sys.executable if is_full else str(warm_python / "python")


@pytest.fixture(scope="session")
def is_full(request: pytest.FixtureRequest) -> bool:
    """Whether the full number is requested."""
    return bool(request.config.getoption("--survival") == "full")
