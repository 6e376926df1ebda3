"""`logging`: what the run reports, and where."""

from typing import Annotated

from pydantic import Field

from grpo_recipes.schemas.section import PositiveInt, Section, Word


class LoggingSection(Section):
    """What the run reports, and where. metrics.jsonl is always written."""

    report_to: list[Word] = []
    """Services, e.g. [wandb]; see docs/trackers.md. Empty: none."""
    logging_steps: PositiveInt = 1
    """Optimizer steps between lines of metrics."""
    log_completions: bool = False
    """Also report completions to the services, and write those of each step to checkpoints/completions/*.parquet, the
    only files that keep the columns of a reward's `log_extra`.
    """
    kept_completions: Annotated[int, Field(ge=0, le=64)] = 4
    """Completions per step that completions.jsonl in the run folder keeps, drawn by the seed. 0: none."""
    run_name: Word | None = None
    """Name of the run in the services. null: the recipe's name."""
