"""Imports the libraries once for all evidence."""

from collections.abc import Iterator

import pytest
from library import Library


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """Calls torch, transformers and TRL, each call in a separate process."""
    opened = Library(tmp_path_factory.mktemp("library"))
    yield opened
    opened.close()
