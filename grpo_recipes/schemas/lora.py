"""`lora`: fields of PEFT's LoraConfig."""

from typing import Annotated, Literal

from pydantic import Field

from grpo_recipes.schemas.section import OpenSection, PositiveInt, Word


class LoraSection(OpenSection):
    """A low-rank adapter on a frozen base; any LoraConfig field. Absent: every weight is trained."""

    continue_: Annotated[bool, Field(alias="continue")] = False
    """Go on training the adapter of model.from_run, which says all of its shape; only lora_dropout may be another.
    false starts a new adapter, and one that from_run has is merged into the model before."""
    r: PositiveInt = 8
    """Rank of the adapter."""
    lora_alpha: PositiveInt = 8
    """Scale: the adapter's output is multiplied by lora_alpha / r."""
    lora_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Dropout on the adapter's input, 0 to below 1. It makes the trainer's log-probs differ from the sampler's."""
    target_modules: Word | list[Word] = "all-linear"
    """Modules that get an adapter: all-linear, a list of name endings, or a regular expression.
    PEFT's own default depends on its release and the architecture, so the format says all-linear."""
    bias: Literal["none", "all", "lora_only"] = "none"
    """Which biases are trained beside the adapter."""
