"""How much is killed: `--survival quick` once for each kind of run, `--survival full` twenty times."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "worker"))  # what a run leaves


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--survival", choices=("quick", "full"), default="quick", help="how often runs are killed")
    parser.addoption("--survival-seed", type=int, default=0, metavar="NUMBER", help="other moments than the usual ones")


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """What all moments follow from."""
    return int(request.config.getoption("--survival-seed"))


@pytest.fixture(scope="session")
def is_full(request: pytest.FixtureRequest) -> bool:
    """Whether the large numbers are asked for."""
    return bool(request.config.getoption("--survival") == "full")
