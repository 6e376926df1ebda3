"""The libraries, imported once for all evidence."""

from collections.abc import Iterator

import pytest
from library import Library


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """Calls into torch, transformers and TRL, each in a process of its own."""
    opened = Library(tmp_path_factory.mktemp("library"))
    yield opened
    opened.close()
