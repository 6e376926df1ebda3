"""Sets the number of attempts: `--hostile quick` takes a few cases of each table, `--hostile full` all of them."""

import gc
import importlib
import pkgutil
from collections import defaultdict
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CASES = 10
"""The quick form takes this many cases of a larger table, evenly spread, so that each kind of attempt is covered.

`mark.hostile(cases=4)` takes fewer, of a table whose cases cost a second each.
"""
COLD = "test_surroundings.py"
"""Its commands import their modules in strange surroundings, so it comes before the others, which share an import."""


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
        number = max(mark.kwargs.get("cases", 0) for mark in cases[0].iter_markers("hostile")) or CASES
        kept = {round(place * (len(cases) - 1) / (number - 1)) for place in range(number)}
        left_out |= {case for place, case in enumerate(cases) if len(cases) > number and place not in kept}
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=sorted(left_out, key=lambda item: item.nodeid))
    items.sort(key=lambda item: item.path.name != COLD)


@pytest.fixture(scope="session")
def _imported() -> None:
    """Imports what commands import, but not the worker, once for all forks of this process."""
    import grpo_recipes

    for module in pkgutil.walk_packages(grpo_recipes.__path__, "grpo_recipes."):
        if not module.name.startswith(("grpo_recipes.worker", "grpo_recipes.rewards")):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _share_imports(request: pytest.FixtureRequest) -> None:
    """Lets the quick form's commands begin with their modules imported, half of their CPU time."""
    if request.config.getoption("--hostile", default="full") == "quick" and request.path.name != COLD:
        request.getfixturevalue("_imported")
