"""What holds for all tests."""

import signal
from collections.abc import Callable
from dataclasses import dataclass

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Lets the processes that tests start be interrupted, also where pytest runs in the background or under nohup.

    Such a shell makes it ignore these signals, and processes inherit that.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def grpo_run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Runs the command as a user does, in this process."""
    from grpo_recipes.cli.main import main

    def run(*arguments: str) -> Answer:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        captured = capsys.readouterr()
        return Answer(int(ended.value.code or 0), captured.out, captured.err)

    return run
