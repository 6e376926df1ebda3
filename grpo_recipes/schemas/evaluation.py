"""`evaluation`: the same rewards on rows that are not trained on."""

from grpo_recipes.schemas.section import NonNegativeInt, PositiveInt, Section, Word


class EvaluationSection(Section):
    """The run's rewards on held-out rows. Training is bit for bit the same with and without an evaluation."""

    path: Word | None = None
    """As dataset.path. null: the training data's path, with another split."""
    name: Word | None = None
    """As dataset.name. null: the training data's."""
    split: Word | None = None
    """As dataset.split. null: train for a path of its own, else it must be said."""
    max_rows: PositiveInt | None = None
    """Only the first rows. null takes all."""
    at_start: bool = True
    """Measure before the first step too, so that there is something to compare with."""
    every_steps: NonNegativeInt = 0
    """Measure every so many optimizer steps. 0: only at the start and after the last step."""
    greedy: bool = True
    """The most likely completion instead of a sampled one."""
