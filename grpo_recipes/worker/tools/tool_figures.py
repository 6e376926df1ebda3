"""Logs figures about tools besides TRL's own: calls, failures and seconds of each tool, and total seconds.

tools/<name>/calls and /failures are sums over all processes for one generation; tools/<name>/seconds, tools/seconds and
tools/generating_seconds, the time of the generator, are means over the processes for one generation.
tools/failed_call_frequency is the failed part of TRL's call_frequency. All are logged like TRL's own: the mean over the
generations of a line.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from grpo_recipes.contract.metric_names import (
    GENERATING_SECONDS,
    TOOL_CALLS,
    TOOL_FAILED_CALLS,
    TOOL_FAILURES,
    TOOL_SECONDS,
)
from grpo_recipes.worker._shared.inputs import Clock
from grpo_recipes.worker.tools.tally import Tally

_EVENTS = ("completions are generated", "turn is generated", "tools are called")


def watch_tools(trainer: Any, tally: Tally) -> None:
    """Counts the tool calls of each training generation from now on. Does nothing without tools."""
    if tally.counts() and all(map(trainer.seams.has, _EVENTS[:2])):
        ToolFigures(trainer, tally)


class ToolFigures:
    """Stands around the trainer's generation: resets the tally before it, and logs the counts after it.

    A call's random numbers depend on its step and index, also in an evaluation, so that a resumed run draws the same.
    """

    def __init__(self, trainer: Any, tally: Tally) -> None:
        self._trainer, self._tally = trainer, tally
        self._generating = Clock()
        around = (self._count_calls, self._generating.running, self._begin_evaluations)
        for event, context in zip(_EVENTS, around, strict=True):
            if trainer.seams.has(event):
                trainer.seams.surround(event, "tools", context)

    @contextmanager
    def _count_calls(self) -> Iterator[None]:
        self._begin("")
        self._generating.seconds = 0.0
        yield
        if self._trainer.model.training:
            self._tell()

    @contextmanager
    def _begin_evaluations(self) -> Iterator[None]:
        if not self._trainer.model.training:
            self._begin("evaluation ")
        yield

    def _begin(self, what: str) -> None:
        trainer = self._trainer
        step, rank = trainer.state.global_step, trainer.accelerator.process_index
        self._tally.begin(f"{what}{trainer.args.seed} {rank} {step}")

    def _tell(self) -> None:
        """Logs the figures. All processes must call it."""
        accelerator, counts = self._trainer.accelerator, self._tally.counts()
        own = [value for count in counts.values() for value in (count.calls, count.failures, count.seconds)]
        sums = torch.tensor([*own, self._generating.seconds], dtype=torch.float64, device=accelerator.device)
        *totals, generating_s = accelerator.reduce(sums, reduction="sum").tolist()
        processes = accelerator.num_processes
        figures = {}
        for index, name in enumerate(counts):
            calls, failures, seconds = totals[3 * index : 3 * index + 3]
            figures[f"tools/{name}/calls"], figures[f"tools/{name}/failures"] = calls, failures
            figures[f"tools/{name}/seconds"] = round(seconds / processes, 6)
        figures[TOOL_SECONDS] = round(sum(totals[2::3]) / processes, 6)
        figures[GENERATING_SECONDS] = round(generating_s / processes, 6)
        logged = self._trainer.seams.figures()
        if logged[TOOL_CALLS] and logged[TOOL_FAILURES]:
            figures[TOOL_FAILED_CALLS] = logged[TOOL_CALLS][-1] * logged[TOOL_FAILURES][-1]
        for name, value in figures.items():
            logged[name].append(value)
