"""`warm_start`: supervised steps before GRPO."""

from typing import Literal

from grpo_recipes.schemas.section import NonNegativeInt, PositiveFloat, PositiveInt, Section, Word


class WarmStartSection(Section):
    """Supervised steps on gold answers before the first generation, with the model, adapter and optimizer of the run.
    Each trains as many rows as a GRPO step has completions, on the tokens of their answers alone. GRPO then starts with
    a fresh optimizer, its own schedule and step 1.
    """

    steps: PositiveInt
    """Optimizer steps."""
    answer: Word
    """Jinja2 template of a row's gold answer, e.g. "{{ answer }}": what the model shall write after the prompt, without
    the end of its turn, which is added. Rows whose answer generation could not give, because it is too long, too
    short or ends early, are left out, and the run names them.
    """
    learning_rate: PositiveFloat
    """Peak learning rate of these steps, e.g. 1e-4 for an adapter, 2e-5 for all weights; GRPO's is usually far lower.
    """
    lr_scheduler_type: Literal["linear", "cosine", "constant"] = "linear"
    """Learning rate schedule of these steps. linear and cosine fall to 0 at their end."""
    warmup_steps: NonNegativeInt = 0
    """Steps of linear warm-up among them."""
