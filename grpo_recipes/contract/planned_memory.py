"""What a run is estimated to need of each GPU, as a plan says it."""

from dataclasses import dataclass, field
from typing import Literal

Phase = Literal["load", "generate", "score", "update", "sync", "save", "evaluation"]
"""The parts of a run: loading the model, making completions, log-probabilities before the update, forward to optimizer
step, handing weights to vLLM, a checkpoint, answering held-out rows."""


@dataclass(frozen=True, slots=True)
class PlannedMemory:
    """What each GPU holds at the worst moment of each phase, an estimate in bytes.

    phases: bytes by the name of a term, by the phase; {} where nothing is known, and unknown says why.
    gpu_bytes: of the smallest GPU; None on the CPU and where it is not known, where the verdict is "unknown" too.
    assumed: what the recipe leaves open and the estimate takes for given.
    """

    verdict: Literal["fits", "tight", "does not fit", "unknown"]
    phases: dict[str, dict[str, int]] = field(default_factory=dict)
    gpu_bytes: int | None = None
    assumed: tuple[str, ...] = ()
    unknown: str = ""

    def peak(self) -> tuple[str, int] | None:
        """The phase that needs most with its bytes, None where nothing is known."""
        totals = {phase: sum(terms.values()) for phase, terms in self.phases.items()}
        return max(totals.items(), key=lambda total: total[1], default=None)
