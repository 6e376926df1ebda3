"""Provides the session's laboratory, its stacks, and the table of results.

Tests of one stack run together, since its process is kept for them: a test with a parameter `stack` is sorted by it,
and left out unless --stacks names it. A test with the mark `long` is left out of --stacks quick.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from environments import ENVIRONMENTS, chosen
from laboratory import Laboratory
from stacks_table import StacksTable

sys.path.append(str(Path(__file__).resolve().parents[1] / "worker"))  # what a run leaves


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--stacks", metavar="NAMES", default="all", help="names of stacks.json with commas, quick or all")
    parser.addoption("--stacks-table", metavar="FILE", help="write the table of these stacks to this file")


def _stack(item: pytest.Item) -> str:
    """The stack of a test, "" for a test without one."""
    call = getattr(item, "callspec", None)
    return "" if call is None else str(call.params.get("stack", ""))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    try:
        names = ["", *chosen(config.getoption("--stacks", default="all"))]
    except KeyError as unknown:
        raise pytest.UsageError(f"--stacks: {unknown} is not in stacks.json") from None
    mine = [item for item in items if item.get_closest_marker("stacks") is not None]
    if unknown := sorted({_stack(item) for item in mine} - {"", *ENVIRONMENTS}):
        raise pytest.UsageError(f"a test names the stack {unknown[0]}, which is not in stacks.json; NEWEST is .venv's")
    kept = [item for item in mine if _stack(item) in names]
    if config.getoption("--stacks") == "quick":
        kept = [item for item in kept if item.get_closest_marker("long") is None]
    config.hook.pytest_deselected(items=[item for item in mine if item not in kept])
    order = ["", *ENVIRONMENTS]
    kept.sort(key=lambda item: order.index(_stack(item)))
    items[:] = [item for item in items if item not in mine] + kept


@pytest.fixture(scope="session")
def stacks_table() -> StacksTable:
    """The data of benchmarks/stacks.md; a test records its results before it asserts."""
    return StacksTable()


@pytest.fixture(scope="session")
def laboratory(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, stacks_table: StacksTable
) -> Iterator[Laboratory]:
    """Runs experiments in real stacks; writes the table at the end if requested."""
    opened = Laboratory(tmp_path_factory.mktemp("stacks"))
    yield opened
    opened.close()
    place = request.config.getoption("--stacks-table", default=None)
    if place is not None:
        page = Path(place)
        before = page.read_text(encoding="utf-8") if page.exists() else ""
        asked = chosen(request.config.getoption("--stacks"))  # others are only compared with it
        cpu_s = {name: seconds for name, seconds in opened.cpu_s.items() if name in asked}
        page.write_text(stacks_table.text(cpu_s, before), encoding="utf-8")
