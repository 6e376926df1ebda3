"""What a step says of its tools beside TRL's own figures: calls, failures and seconds of each, and of all the seconds.

tools/<name>/calls and /failures are of one generation over all processes; tools/<name>/seconds, tools/seconds and
tools/generating_seconds, in which the generator wrote, are of one generation and the mean of the processes. All are
logged as TRL logs its own: the mean over the generations of a line.
"""

import time
from typing import Any

import torch

from grpo_recipes.worker.tools.tally import Tally

_GENERATES, _TURN = "_generate", "_generate_single_turn"
PREFIX = "tools/"
SECONDS, GENERATING = f"{PREFIX}seconds", f"{PREFIX}generating_seconds"


def watch_tools(trainer: Any, tally: Tally) -> None:
    """From now on each generation of the training is counted; nothing where no tool is called."""
    if tally.counts() and hasattr(trainer, _GENERATES) and hasattr(trainer, _TURN):
        ToolFigures(trainer, tally)


class ToolFigures:
    """Stands before the trainer's generation: tells the tally when one begins, and the trainer what came of it."""

    def __init__(self, trainer: Any, tally: Tally) -> None:
        self._trainer, self._tally = trainer, tally
        self._generating_s = 0.0
        self._generate, self._turn = getattr(trainer, _GENERATES), getattr(trainer, _TURN)
        setattr(trainer, _GENERATES, self._counted)
        setattr(trainer, _TURN, self._timed)

    def _counted(self, *given: Any, **named: Any) -> Any:
        trainer = self._trainer
        step, rank = trainer.state.global_step, trainer.accelerator.process_index
        self._tally.begin(f"{trainer.args.seed} {rank} {step}")
        self._generating_s = 0.0
        found = self._generate(*given, **named)
        if trainer.model.training:
            self._tell()
        return found

    def _timed(self, *given: Any, **named: Any) -> Any:
        began = time.perf_counter()
        try:
            return self._turn(*given, **named)
        finally:
            self._generating_s += time.perf_counter() - began

    def _tell(self) -> None:
        """All processes come here at once."""
        accelerator, counts = self._trainer.accelerator, self._tally.counts()
        own = [value for one in counts.values() for value in (one.calls, one.failures, one.seconds)]
        sums = torch.tensor([*own, self._generating_s], dtype=torch.float64, device=accelerator.device)
        *found, generating_s = accelerator.reduce(sums, reduction="sum").tolist()
        processes = accelerator.num_processes
        figures = {}
        for place, name in enumerate(counts):
            calls, failures, seconds = found[3 * place : 3 * place + 3]
            figures[f"{PREFIX}{name}/calls"], figures[f"{PREFIX}{name}/failures"] = calls, failures
            figures[f"{PREFIX}{name}/seconds"] = round(seconds / processes, 6)
        figures[SECONDS] = round(sum(found[2::3]) / processes, 6)
        figures[GENERATING] = round(generating_s / processes, 6)
        for name, value in figures.items():
            self._trainer._metrics["train"][name].append(value)
