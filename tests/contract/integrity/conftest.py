"""Gives each test a separate user."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder."""
    place = tmp_path / "config"
    place.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place))
    return place / "grpo-run"
