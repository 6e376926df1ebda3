"""Skips these tests outside .venv-vllm, which `make test-vllm` creates."""

from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("vllm") is not None else ["test_*.py"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--stop-parity-table", metavar="FILE", help="write the table of all stops to this file")
