"""Sets the number of attempts: `--hostile quick` takes a few cases of each table, `--hostile full` all of them."""

from collections import defaultdict
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CASES = 10
"""The quick form takes this many cases of a larger table, evenly spread, so that each kind of attempt is covered."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--hostile", choices=("quick", "full"), default="full", help="how many attempts are made")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker("processes")
    if config.getoption("--hostile", default="full") != "quick":
        return
    tables: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("hostile") is not None:
            tables[item.nodeid.partition("[")[0]].append(item)
    left_out = set[pytest.Item]()
    for cases in tables.values():
        kept = {round(place * (len(cases) - 1) / (CASES - 1)) for place in range(CASES)}
        left_out |= {case for place, case in enumerate(cases) if len(cases) > CASES and place not in kept}
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=sorted(left_out, key=lambda item: item.nodeid))
