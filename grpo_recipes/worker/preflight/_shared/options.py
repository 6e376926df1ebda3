"""What the command asks of a preflight, beside the plan."""

import json
from dataclasses import dataclass
from pathlib import Path

from grpo_recipes.contract.plan import Batch

OPTIONS_FILE = "preflight.json"


@dataclass(frozen=True, slots=True)
class Options:
    """How closely to look, and how long the run is.

    rows: so many are judged by the rewards and shown. time_limit: seconds for one call of a reward. memory_limit:
    bytes that a reward may hold, None for four fifths of what is free. max_steps: optimizer steps, None where epochs
    decide. batch: the plan's.
    """

    rows: int
    time_limit: float
    memory_limit: int | None
    seed: int
    max_steps: int | None
    epochs: float
    num_iterations: int
    shuffled: bool
    batch: Batch

    @property
    def completions_per_call(self) -> int:
        """Completions that a reward gets at once on all processes together."""
        return self.batch.prompts * self.batch.num_generations

    @property
    def calls_per_step(self) -> float:
        """Generations, each judged once, per optimizer step."""
        return self.batch.accumulation / (self.batch.steps_per_generation * self.num_iterations)

    def steps_per_epoch(self, rows: int) -> int:
        """Optimizer steps that so many rows give; a generation that they do not fill is dropped."""
        micro_batches = rows // self.batch.prompts * self.num_iterations * self.batch.steps_per_generation
        return -(-micro_batches // self.batch.accumulation)


def read_options(folder: Path, batch: Batch) -> Options:
    """The options beside the plan of a folder, whose batch it is."""
    return Options(batch=batch, **json.loads((folder / OPTIONS_FILE).read_text(encoding="utf-8")))
