"""What the command asks of a preflight, beside the plan."""

import json
from dataclasses import dataclass
from pathlib import Path

OPTIONS_FILE = "preflight.json"
ANSWER_FILE = "preflight-answer.json"


@dataclass(frozen=True, slots=True)
class Options:
    """How closely to look, and the shape of the run.

    rows: so many are judged by the rewards and shown. time_limit: seconds for one call of a reward. memory_limit:
    bytes that a reward may hold, None for four fifths of what is free. max_steps: optimizer steps, None where epochs
    decide. prompts_per_generation: of all processes. micro_batches: per generation and process. accumulation:
    micro-batches per optimizer step.
    """

    rows: int
    time_limit: float
    memory_limit: int | None
    seed: int
    max_steps: int | None
    epochs: float
    num_generations: int
    num_iterations: int
    prompts_per_generation: int
    micro_batches: int
    accumulation: int
    shuffled: bool

    @property
    def completions_per_call(self) -> int:
        """Completions that a reward gets at once on all processes together."""
        return self.prompts_per_generation * self.num_generations

    @property
    def calls_per_step(self) -> float:
        """Generations, each judged once, per optimizer step."""
        return self.accumulation / (self.micro_batches * self.num_iterations)

    def steps_per_epoch(self, rows: int) -> int:
        """Optimizer steps that so many rows give; a generation that they do not fill is dropped."""
        micro_batches = rows // self.prompts_per_generation * self.num_iterations * self.micro_batches
        return -(-micro_batches // self.accumulation)


def read_options(folder: Path) -> Options:
    """The options beside the plan of a folder."""
    return Options(**json.loads((folder / OPTIONS_FILE).read_text(encoding="utf-8")))
