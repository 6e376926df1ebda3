"""Little time and memory for what a recipe's templates compute."""

import contextlib
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

SECONDS = 2.0
"""CPU seconds of this process for one text; a long prompt takes a thousandth of one."""
MEMORY = 512 << 20
"""Bytes beside those that the process has."""


class TooMuch(BaseException):
    """A template that was ended. No Exception, since jinja2 takes those of a constant for its own and tries again."""


@contextlib.contextmanager
def bounded(seconds: float = SECONDS, memory: int = MEMORY) -> Iterator[Callable[[], object]]:
    """Raises TooMuch where the block computes for longer, and where it needs more memory.

    Yields what begins the seconds anew, for a block that computes several texts; it costs a hundredth of a block.
    A sandbox knows nothing of `'a' * 10**10` or of loops in loops. The kernel counts time and memory, and neither is
    bounded on a thread that is not the main one, or on a system that cannot.
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
    raise TooMuch("it computes for too long")


def _address_space() -> int:
    """Bytes of address space of this process; so many that nothing is limited where there is no /proc."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 1 << 60


def _limit_memory(wanted: int, soft: int, hard: int) -> None:
    known = [one for one in (wanted, soft, hard) if one != resource.RLIM_INFINITY]
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (min(known), hard))
