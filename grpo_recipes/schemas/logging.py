"""`logging`: what is reported, and where."""

from grpo_recipes.schemas.section import PositiveInt, Section, Word


class LoggingSection(Section):
    """What is reported, and where. metrics.jsonl is always written."""

    report_to: list[Word] = []
    """Services, e.g. [wandb]. Empty: none."""
    logging_steps: PositiveInt = 1
    """Optimizer steps between two lines of metrics."""
    log_completions: bool = False
    """Report sampled completions to the services too."""
    run_name: Word | None = None
    """Name of the run in the services. null: the recipe's name."""
