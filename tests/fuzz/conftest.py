"""Sets the amount of fuzzing: `--fuzz quick` takes seconds for every change, `--fuzz full` covers all claims."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "stacks"), str(TESTS / "resolve")]  # the laboratory of real releases, random recipes


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fuzz", choices=("quick", "full"), default="quick", help="how many random inputs are tried")
    parser.addoption("--fuzz-seed", type=int, default=0, metavar="NUMBER", help="other inputs than the usual ones")


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of all random choices of a run."""
    return int(request.config.getoption("--fuzz-seed"))


@pytest.fixture(scope="session")
def is_full(request: pytest.FixtureRequest) -> bool:
    """Whether the full amount is requested."""
    return bool(request.config.getoption("--fuzz") == "full")


@pytest.fixture(scope="session")
def real_releases(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[object]":
    """Runs functions in real stacks."""
    from laboratory import Laboratory

    opened = Laboratory(tmp_path_factory.mktemp("releases"))
    yield opened
    opened.close()
