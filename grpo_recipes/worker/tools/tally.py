"""Counts how often the policy called each tool, the failures, and the time."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from grpo_recipes.contract.secrets.redact import hide_secrets


@dataclass(slots=True)
class Count:
    """The calls of one tool. seconds: their total; each of several concurrent async calls counts in full."""

    calls: int = 0
    failures: int = 0
    seconds: float = 0.0


class Tally:
    """Counts a generation's calls by tool, and logs each tool's first failures.

    seed: of the generation; each call's random numbers depend on it and the call's index.
    """

    def __init__(self) -> None:
        self.seed = ""
        self._counts: dict[str, Count] = {}
        self._failed: dict[str, int] = {}
        self._calls = 0
        self._lock = threading.Lock()

    def add(self, tool: str) -> None:
        """Starts counting a tool."""
        self._counts[tool], self._failed[tool] = Count(), 0

    def begin(self, seed: str) -> None:
        """Resets the counts for a new generation."""
        with self._lock:
            self.seed, self._calls = seed, 0
            self._counts = {name: Count() for name in self._counts}

    def counts(self) -> dict[str, Count]:
        """Returns the generation's counts so far, by tool."""
        with self._lock:
            return dict(self._counts)

    def next_seed(self) -> str:
        """Returns the seed of the next call."""
        with self._lock:
            self._calls += 1
            return f"{self.seed} {self._calls}"

    @contextmanager
    def count_call(self, tool: str) -> Iterator[None]:
        """Counts one call; any exception is a failure."""
        began = time.perf_counter()
        failed: BaseException | None = None
        try:
            yield
        except BaseException as problem:
            failed = problem
            raise
        finally:
            with self._lock:
                count = self._counts[tool]
                count.calls += 1
                count.failures += failed is not None
                count.seconds += time.perf_counter() - began
                self._failed[tool] += failed is not None
                times = self._failed[tool]
            if failed is not None and times == 10 ** (len(str(times)) - 1):
                self._say(tool, failed, times)

    def _say(self, tool: str, problem: BaseException, times: int) -> None:
        often = "" if times == 1 else f" for the {times}th time"
        line = getattr(problem, "place", "")
        print(hide_secrets(f"tool {tool} failed{often}: {problem}" + (f" ({line})" if line else "")), flush=True)
