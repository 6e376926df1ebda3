"""Whether any reward has ever given a number: from None and NaN alone, no answers for TRL, nothing is learned."""

import math
from collections import Counter
from typing import Any

from grpo_recipes.worker._shared.refused import Refused

FEWEST_CALLS = 10


class Answered:
    """Looks at what the rewards of a run return. rewards: their names, all of them functions; else nothing is said."""

    def __init__(self, rewards: list[str]) -> None:
        self._rewards = rewards
        self._calls: Counter[str] = Counter()
        self._has_answer = False
        self._nan = 0

    def look(self, reward: str, found: Any) -> None:
        """Raises Refused when each reward was called some times, and none has given a number."""
        if self._has_answer:
            return
        self._calls[reward] += 1
        given = [one for one in found if one is not None] if isinstance(found, list | tuple) else [0.0]
        nan = sum(isinstance(one, float) and math.isnan(one) for one in given)
        self._nan += nan
        self._has_answer = len(given) > nan
        if all(self._calls[name] >= FEWEST_CALLS for name in self._rewards):
            self.refuse_no_answer()

    def refuse_no_answer(self) -> None:
        """Raises Refused where rewards were called and none gave a number; for the end of a training of one process."""
        if self._has_answer or not self._rewards or not all(self._calls[name] for name in self._rewards):
            return
        raise Refused.of(
            f"no reward has given a number: {', '.join(self._rewards)}",
            because=f"{self._nan} answers are NaN, the rest None; both are no answer for TRL: nothing is learned",
            fix="a reward that returns numbers; grpo-run preflight shows what it returns",
        )
