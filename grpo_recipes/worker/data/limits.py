"""Limits the time and memory of what a recipe's templates and patterns compute."""

import contextlib
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

SECONDS = 2.0
"""CPU seconds for one text; a long prompt takes a thousandth of a second."""
MEMORY = 512 << 20
"""Bytes beyond what the process already uses."""


class TooMuch(BaseException):
    """A template exceeded its limits. Not an Exception: jinja2 catches those of a constant and tries again."""


@contextlib.contextmanager
def limit_block(seconds: float = SECONDS, memory: int = MEMORY) -> Iterator[Callable[[], object]]:
    """Raises TooMuch if the block exceeds `seconds` of CPU time or `memory` bytes.

    Yields a function that restarts the clock, for a block that renders several texts; it costs a hundredth of a block.
    The sandbox alone does not stop `'a' * 10**10` or nested loops. The kernel enforces both limits; neither applies
    outside of the main thread, or if the system does not support it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before = signal.signal(signal.SIGVTALRM, _too_long)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    try:
        _limit_memory(_address_space() + memory, soft, hard)
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds, seconds)
        yield lambda: signal.setitimer(signal.ITIMER_VIRTUAL, seconds, seconds)
    except MemoryError:
        raise TooMuch(f"it needs more than {memory >> 20} MiB of memory") from None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _too_long(*_: object) -> None:
    raise TooMuch("it takes too long")


def _address_space() -> int:
    """Returns this process's address space in bytes, or without /proc a number so large that nothing is limited."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 1 << 60


def _limit_memory(wanted: int, soft: int, hard: int) -> None:
    known = [limit for limit in (wanted, soft, hard) if limit != resource.RLIM_INFINITY]
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (min(known), hard))
