"""`evaluation`: the same rewards on rows that are not trained on."""

from grpo_recipes.schemas.dataset import Seed
from grpo_recipes.schemas.section import NonNegativeInt, PositiveInt, Section, Word


class PassesSection(Section):
    """Which completion passes: what `pass_at` counts, and what makes a row right."""

    reward: Word
    """One of `rewards`, by its name in the metrics: that of a shipped reward, the function of a file, the last part of
    a model's place; one that comes again has a number, NAME_2."""
    at_least: float = 1.0
    """The reward, before its weight, from which on a completion passes."""


class HeldOutTasksSection(Section):
    """Held-out rows of the tasks of `dataset.reasoning_gym`."""

    size: PositiveInt = 100
    """How many rows are made."""
    seed: Seed = 0
    """Rows of another seed than those of the training, also where both are the same number."""


class EvaluationSection(Section):
    """The run's rewards on held-out rows, each figure with its 95 % interval: a bootstrap over the rows, 2000 times.

    Training is bit for bit the same with and without an evaluation. Who generates the completions is `use_vllm`.
    """

    path: Word | None = None
    """As dataset.path. null: the training data's path, with another split; of an environment that owns its data, other
    episodes."""
    reasoning_gym: HeldOutTasksSection | None = None
    """Rows of the tasks of dataset.reasoning_gym whose questions are not trained on. null: they are at path."""
    name: Word | None = None
    """As dataset.name. null: the training data's."""
    split: Word | None = None
    """As dataset.split. null: train for a path of its own, else it must be said."""
    max_rows: PositiveInt | None = None
    """Only the first rows. null takes all. Of an environment that owns its data: how many episodes."""
    at_start: bool = True
    """Measure before the first step too, so that there is something to compare with."""
    every_steps: NonNegativeInt = 0
    """Measure every so many optimizer steps. 0: only at the start and after the last step."""
    greedy: bool = True
    """The most likely completion instead of a sampled one."""
    samples: PositiveInt = 1
    """Completions of each row, whose rewards are averaged. More than one needs greedy: false. They are drawn by row,
    so any number of processes draws the same."""
    pass_at: list[PositiveInt] = []
    """For each number k: how likely at least one of k completions of a row passes, estimated without bias from all
    `samples`. [1] is the share that passes."""
    use_vllm: bool | None = None
    """Let the run's vLLM answer, with the weights of that step and a seed for each completion. null: it does where it
    runs in the training processes, and transformers answer otherwise. true lets a server answer too, whose random
    numbers an evaluation may move: what is trained then is as likely, and not bit for bit the same. false:
    transformers."""
    passes: PassesSection | None = None
    """When a completion passes. null: at a reward of 1.0 where the recipe has one reward that is a function, else
    `pass_at` needs it."""
    keep_best: bool = False
    """Keep the checkpoint with the best held-out reward of those after a step, whatever save_total_limit says, and hand
    it over as `final/`. A checkpoint is written at each evaluation."""
    stop_after: PositiveInt | None = None
    """End the training after so many evaluations without a better held-out reward. null: it takes all its steps."""
