"""Logs figures about tools besides TRL's own: calls, failures and seconds of each tool, and total seconds.

tools/<name>/calls and /failures are sums over all processes for one generation; tools/<name>/seconds, tools/seconds and
tools/generating_seconds, the time of the generator, are means over the processes for one generation.
tools/failed_call_frequency is the failed part of TRL's call_frequency. All are logged like TRL's own: the mean over the
generations of a line.
"""

import functools
from collections.abc import Callable
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

_GENERATES, _TURN, _LOOP = "_generate", "_generate_single_turn", "_tool_call_loop"
Method = Callable[..., Any]


def watch_tools(trainer: Any, tally: Tally) -> None:
    """Counts the tool calls of each training generation from now on. Does nothing without tools."""
    if tally.counts() and hasattr(trainer, _GENERATES) and hasattr(trainer, _TURN):
        ToolFigures(trainer, tally)


class ToolFigures:
    """Wraps the trainer's generation: resets the tally before it, and logs the counts after it.

    A call's random numbers depend on its step and index, also in an evaluation, so that a resumed run draws the same.
    """

    def __init__(self, trainer: Any, tally: Tally) -> None:
        self._trainer, self._tally = trainer, tally
        self._generating = Clock()
        setattr(trainer, _GENERATES, self._counted(getattr(trainer, _GENERATES)))
        setattr(trainer, _TURN, self._generating.around(getattr(trainer, _TURN)))
        if hasattr(trainer, _LOOP):
            setattr(trainer, _LOOP, self._begun(getattr(trainer, _LOOP)))

    def _counted(self, generate: Method) -> Method:
        @functools.wraps(generate)
        def counted(*given: Any, **named: Any) -> Any:
            self._begin("")
            self._generating.seconds = 0.0
            found = generate(*given, **named)
            if self._trainer.model.training:
                self._tell()
            return found

        return counted

    def _begun(self, loop: Method) -> Method:
        @functools.wraps(loop)
        def begun(*given: Any, **named: Any) -> Any:
            if not self._trainer.model.training:
                self._begin("evaluation ")
            return loop(*given, **named)

        return begun

    def _begin(self, what: str) -> None:
        trainer = self._trainer
        step, rank = trainer.state.global_step, trainer.accelerator.process_index
        self._tally.begin(f"{what}{trainer.args.seed} {rank} {step}")

    def _tell(self) -> None:
        """Logs the figures. All processes must call it."""
        accelerator, counts = self._trainer.accelerator, self._tally.counts()
        own = [value for one in counts.values() for value in (one.calls, one.failures, one.seconds)]
        sums = torch.tensor([*own, self._generating.seconds], dtype=torch.float64, device=accelerator.device)
        *found, generating_s = accelerator.reduce(sums, reduction="sum").tolist()
        processes = accelerator.num_processes
        figures = {}
        for place, name in enumerate(counts):
            calls, failures, seconds = found[3 * place : 3 * place + 3]
            figures[f"tools/{name}/calls"], figures[f"tools/{name}/failures"] = calls, failures
            figures[f"tools/{name}/seconds"] = round(seconds / processes, 6)
        figures[TOOL_SECONDS] = round(sum(found[2::3]) / processes, 6)
        figures[GENERATING_SECONDS] = round(generating_s / processes, 6)
        logged = self._trainer._metrics["train"]
        if logged[TOOL_CALLS] and logged[TOOL_FAILURES]:
            figures[TOOL_FAILED_CALLS] = logged[TOOL_CALLS][-1] * logged[TOOL_FAILURES][-1]
        for name, value in figures.items():
            logged[name].append(value)
