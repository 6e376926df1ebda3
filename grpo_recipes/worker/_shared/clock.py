"""Seconds that a method of the trainer takes, which the worker puts itself before."""

import functools
import time
from collections.abc import Callable
from typing import Any


class Clock:
    """seconds: of all calls of the methods that it stands around, since it was last set."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """The method, its calls timed, also those that raise."""

        @functools.wraps(method)
        def timed(*given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return method(*given, **named)
            finally:
                self.seconds += time.perf_counter() - began

        return timed
