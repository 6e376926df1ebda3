"""`evaluation`: the same rewards on rows that are not trained on."""

from grpo_recipes.schemas.dataset import Seed
from grpo_recipes.schemas.section import NonNegativeInt, PositiveInt, Section, Word


class PassesSection(Section):
    """Which completions pass: those that `pass_at` counts and that make a row right."""

    reward: Word
    """One of `rewards`, by its name in the metrics: the name of a shipped reward, the function of a file, or the last
    part of a model's path; a repeated name gets a number, NAME_2.
    """
    at_least: float = 1.0
    """The lowest reward, before its weight, with which a completion passes."""


class HeldOutTasksSection(Section):
    """Held-out rows of the tasks of `dataset.reasoning_gym`."""

    size: PositiveInt = 100
    """Number of rows."""
    seed: Seed = 0
    """Seed of the rows. They differ from the training's rows, even if both seeds are the same number."""


class EvaluationSection(Section):
    """The run's rewards on held-out rows, each figure with its 95 % interval from 2000 bootstrap samples of the rows.
    Training is bit for bit the same with and without an evaluation. `use_vllm` chooses what generates the completions.
    """

    path: Word | None = None
    """As dataset.path. null: the training data's path, with a different split; for an environment that owns its data,
    other episodes.
    """
    reasoning_gym: HeldOutTasksSection | None = None
    """Rows of the tasks of dataset.reasoning_gym whose questions are not trained on. null: they are at path."""
    name: Word | None = None
    """As dataset.name. null: the training data's."""
    split: Word | None = None
    """As dataset.split. null: train if evaluation has its own path; otherwise required."""
    max_rows: PositiveInt | None = None
    """Use only the first rows. null: all. For an environment that owns its data: the number of episodes."""
    at_start: bool = True
    """Also evaluate before the first step, as a baseline."""
    every_steps: NonNegativeInt = 0
    """Optimizer steps between evaluations. 0: only before the first and after the last step."""
    greedy: bool = True
    """The most likely completion instead of a sampled one."""
    samples: PositiveInt = 1
    """Completions per row, whose rewards are averaged. More than one needs greedy: false. Each row has its own seed, so
    any number of processes draws the same.
    """
    pass_at: list[PositiveInt] = []
    """For each number k: the probability that at least one of k completions of a row passes, estimated without bias
    from all `samples`. [1] is the share that passes.
    """
    use_vllm: bool | None = None
    """Let the run's vLLM answer, with the weights of that step and a seed for each completion. null: vLLM if it runs in
    the training processes, otherwise transformers. true also lets a server answer; an evaluation may advance its random
    numbers, so the training is equally likely but not bit for bit the same. false: transformers.
    """
    passes: PassesSection | None = None
    """When a completion passes. null: at a reward of 1.0 if the recipe's only reward is a function; otherwise `pass_at`
    needs it.
    """
    keep_best: bool = False
    """Keep the checkpoint with the best held-out reward after a step, whatever save_total_limit says, and use it as
    `final/`. A checkpoint is written at each evaluation.
    """
    stop_after: PositiveInt | None = None
    """Stop the training after this many evaluations without a better held-out reward. null: train all steps."""
