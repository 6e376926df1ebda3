"""Programs in terminals of their own, which are closed, stopped and killed as windows, ssh and tmux do it."""

import contextlib
import os
import pty
import shlex
import signal
import subprocess
import sys
import termios
from pathlib import Path

ROOT = Path(__file__).parents[2]
LAUNCH = "import sys; from grpo_recipes.launch.local import launch; sys.exit(launch(sys.argv[1]))"
# The terminal of its standard input becomes the one that controls its session.
_CONTROLLED = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)


class Terminal:
    """A terminal whose other end this process has, and the program that leads its session.

    columns: of its window, 0 for one that does not say.
    """

    def __init__(self, words: list[str], *, to_stop: bool = False, shown: bool = True, columns: int = 0) -> None:
        self.end, terminal = pty.openpty()
        if columns:
            termios.tcsetwinsize(terminal, (24, columns))
        if to_stop:
            attributes = termios.tcgetattr(terminal)
            attributes[3] |= termios.TOSTOP
            termios.tcsetattr(terminal, termios.TCSANOW, attributes)
        stream = terminal if shown else subprocess.DEVNULL
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CONTROLLED, *words],
            cwd=ROOT,
            # Without the size of another terminal, which readline tells children behind the back of os.environ.
            env={name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")},
            stdin=terminal,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
        os.close(terminal)

    def shown(self) -> str:
        """What it shows that was not read yet."""
        os.set_blocking(self.end, False)
        text = b""
        with contextlib.suppress(BlockingIOError, OSError):
            while more := os.read(self.end, 1 << 16):
                text += more
        return text.decode(errors="replace")

    def type(self, keys: bytes) -> None:
        """Types keys."""
        os.write(self.end, keys)

    def close(self) -> None:
        """Closes the window."""
        if self.end >= 0:
            os.close(self.end)
            self.end = -1

    def leave(self) -> None:
        """Closes the window and kills what leads the session."""
        self.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def launching(folder: Path) -> list[str]:
    """The words that launch a run folder."""
    return [sys.executable, "-c", LAUNCH, str(folder)]


def by_shell(folder: Path, line: str) -> list[str]:
    """A shell that runs a line in which LAUNCH launches the run folder, $1; its own process stays above it."""
    program = shlex.join(launching(folder))
    return ["/bin/bash", "-c", line.replace("LAUNCH", program), "bash", str(folder)]
