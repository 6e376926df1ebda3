"""Runs that several tests compare, and the table of all of them."""

from collections.abc import Iterator
from pathlib import Path

import distributed_runs
import pytest
from distributed_runs import Run, RunOf, grpo_run
from distributed_table import table


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--distributed-table", metavar="FILE", help="write the table of all strategies to this file")


@pytest.fixture(scope="session", autouse=True)
def interpreter(request: pytest.FixtureRequest) -> None:
    """Forks trainers from a Python with the libraries imported; those of the table start as a user's do."""
    if request.config.getoption("--distributed-table", default=None) is None:
        distributed_runs.PYTHON.append(str(request.getfixturevalue("warm_python") / "python"))


@pytest.fixture(scope="session")
def run_of(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[RunOf]:
    """Returns the run of a strategy and a kind, made once; writes the table at the end if requested and complete."""
    runs: dict[tuple[str, str], Run] = {}

    def made(strategy: str, kind: str) -> Run:
        if (strategy, kind) not in runs:
            folder = tmp_path_factory.mktemp(f"{strategy}-{kind}".replace(" ", "-"))
            runs[strategy, kind] = grpo_run(strategy, kind, folder)
        return runs[strategy, kind]

    yield made
    place = request.config.getoption("--distributed-table", default=None)
    if place is not None:
        Path(place).write_text(table(runs), encoding="utf-8")
