"""Records the exceptions that a reward raises and catches itself."""

import linecache
import sys
from collections import Counter
from types import FrameType, TracebackType
from typing import Any

from grpo_recipes.worker.user_code.reward_call import is_reward_file


class CaughtErrors:
    """Counts, while it is entered, the exceptions that pass through lines of the user's files.

    An exception counts once, at the innermost of these lines.
    """

    def __init__(self, user: str) -> None:
        self._user = user
        self._are_own: dict[str, bool] = {}
        self._counts: Counter[tuple[str, str]] = Counter()

    def __enter__(self) -> "CaughtErrors":
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    @property
    def counts(self) -> list[tuple[str, str, int]]:
        """Returns (exception, place, how often)."""
        return [(error, place, count) for (error, place), count in self._counts.items()]

    def _is_own(self, file: str) -> bool:
        if file not in self._are_own:
            self._are_own[file] = is_reward_file(file, self._user)
        return self._are_own[file]

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not self._is_own(frame.f_code.co_filename):
            return None
        if event == "exception" and not self._passed_below(argument[2]):
            path, line = frame.f_code.co_filename, frame.f_lineno
            place = f"{path.rpartition('/')[2]}:{line}: {linecache.getline(path, line).strip()}"
            self._counts[f"{argument[0].__name__}: {argument[1]}", place] += 1
        return self._trace

    def _passed_below(self, trace: TracebackType) -> bool:
        """Whether an inner frame of the user's files had the exception before."""
        inner = trace.tb_next
        while inner is not None:
            if self._is_own(inner.tb_frame.f_code.co_filename):
                return True
            inner = inner.tb_next
        return False
