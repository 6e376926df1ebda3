"""The memory of a process keeps growing although its completions do not get longer.

A reward that keeps every completion, a callback that keeps tensors, or a graph attached to a logged loss fills the
memory until, hours later, the process is killed without an error message.

Threshold: the guard compares the minimum memory in use after a step between windows of 10 optimizer steps. It fires if
on any process this minimum rose in each of 4 windows, and by 0.25 GiB and 5 % in total, while no window had longer
completions than the first. It uses the minimum because single steps with long completions need more. It reads resident
memory, and the memory that torch has allocated on a GPU; the first 10 steps do not count. Sources: /proc/self/statm,
torch.cuda.memory_allocated. It does not fire on the shipped quickstart, but does if each step keeps 12 MB.

Action: note, since caches that fill up look the same for a while.
What to do: look for lists in the reward module that only grow, and for tensors kept without detach().
"""

import itertools
from collections.abc import Callable

import psutil
import torch

from grpo_recipes.worker.guards.alarm import Alarm, Guard, Line

ID = "GRD010"
NAME = "memory_growth"
LOOKS_BACK = False  # it watches this process
STEPS = 10
STRETCHES = 4
LEAST_GIB = 0.25
LEAST_SHARE = 0.05
KINDS = ("resident memory", "GPU memory")

InUse = tuple[float, float]
"""GiB in use by a process: resident, and of its GPU."""


def in_use() -> InUse:
    """Returns the memory that this process uses now; 0.0 without a GPU."""
    gpu = torch.cuda.memory_allocated() / 1024**3 if torch.cuda.is_initialized() else 0.0
    return psutil.Process().memory_info().rss / 1024**3, gpu


class MemoryGrowth(Guard):
    """Compares the minimum memory of each window.

    everyone: returns the values of all processes; all processes call it at the end of a window.
    """

    def __init__(self, everyone: Callable[[InUse], list[InUse]]) -> None:
        self._everyone = everyone
        self._least: InUse | None = None
        self._longest, self._covered = 0.0, 0
        self._stretches: list[tuple[float, list[InUse]]] = []
        self._is_warm = False

    def look(self, line: Line) -> Alarm | None:
        """Alarms at most once in 40 steps."""
        now = in_use()
        self.seen |= any(now)
        self._least = now if self._least is None else (min(self._least[0], now[0]), min(self._least[1], now[1]))
        lengths = (line.figures.get(f"completions/{name}_length") for name in ("max", "mean"))
        self._longest = max(self._longest, next((length for length in lengths if length is not None), 0.0))
        self._covered += line.steps
        if self._covered < STEPS:
            return None
        ended = self._longest, self._everyone(self._least)
        self._least, self._longest, self._covered = None, 0.0, 0
        if not self._is_warm:
            self._is_warm = True
            return None
        self._stretches = [*self._stretches[-STRETCHES:], ended]
        alarm = self._find_growth()
        if alarm is not None:
            self._stretches = []
        return alarm

    def _find_growth(self) -> Alarm | None:
        longest = [length for length, _ in self._stretches]
        if len(longest) <= STRETCHES or max(longest) > longest[0]:
            return None
        for kind, what in enumerate(KINDS):
            for rank in range(len(self._stretches[0][1])):
                least = [ranks[rank][kind] for _, ranks in self._stretches]
                rose = all(before < after for before, after in itertools.pairwise(least))
                growth = least[-1] - least[0]
                if rose and growth >= max(LEAST_GIB, LEAST_SHARE * least[0]):
                    return _alarm(what, rank, least[0], least[-1])
        return None


def _alarm(what: str, rank: int, before: float, after: float) -> Alarm:
    return Alarm.of(
        after - before,
        f"the {what} of process {rank} grew from {before:.2f} to {after:.2f} GiB in {STRETCHES * STEPS} steps",
        "something keeps data of every step; completions did not get longer",
        "look for lists in the reward module that only grow, and for tensors kept without detach()",
    )
