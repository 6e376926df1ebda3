"""Runs the command as a user does, in this process."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from grpo_recipes.cli.main import main


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def grpo_run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    def run(*arguments: str) -> Answer:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        captured = capsys.readouterr()
        return Answer(int(ended.value.code or 0), captured.out, captured.err)

    return run
