"""`lora`: fields of PEFT's LoraConfig."""

from typing import Annotated, Literal

from pydantic import Field

from grpo_recipes.schemas.section import OpenSection, PositiveInt, Word


class LoraSection(OpenSection):
    """A low-rank adapter on a frozen base; any LoraConfig field. Without this section every weight is trained."""

    continue_: Annotated[bool, Field(alias="continue")] = False
    """Continue the adapter of model.from_run, which determines its shape; only lora_dropout may differ. false: start a
    new adapter, after merging one that from_run has into the model.
    """
    r: PositiveInt = 8
    """Rank of the adapter."""
    lora_alpha: PositiveInt = 8
    """Scale: PEFT multiplies the adapter's output by lora_alpha / r."""
    lora_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Dropout on the adapter's input, 0 to below 1. It makes the trainer's log-probs differ from the sampler's."""
    target_modules: Word | list[Word] = "all-linear"
    """Modules that get an adapter: all-linear, a list of name endings, or a regular expression. PEFT's own default
    depends on its release and the architecture, so the format's default is all-linear.
    """
    bias: Literal["none", "all", "lora_only"] = "none"
    """Biases to train beside the adapter."""
