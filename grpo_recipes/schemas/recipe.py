"""The recipe: all sections, with the defaults of format 1."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from grpo_recipes.schemas.model import LoraSection, ModelSection, QuantizationSection, TokenizerSection
from grpo_recipes.schemas.running import (
    DistributedSection,
    GuardsSection,
    LaunchSection,
    LoggingSection,
    PreflightSection,
    SlurmSection,
    VllmServerSection,
)
from grpo_recipes.schemas.section import NonNegativeInt, Section, Word
from grpo_recipes.schemas.task import DatasetSection, EnvironmentSection, RewardSection, RolloutSection, ToolSection
from grpo_recipes.schemas.training import EvaluationSection, GenerationSection, GrpoSection, TrainingSection


class Recipe(Section):
    """One GRPO experiment and how it is run."""

    model_config = ConfigDict(defer_build=False, title="grpo-run recipe")

    recipe: Literal[1]
    """Version of this format."""
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
    """Short name, part of the run folder's name: lower-case letters, digits, dot, dash, underscore."""
    description: str = ""
    """What is trained, and on what, in a sentence."""
    seed: Annotated[NonNegativeInt, Field(le=2**32 - 1)] = 42
    """Seed of weights, data order and sampling."""
    extends: Word | None = None
    """The recipe that this one builds on: a file relative to this one, also without .yaml, or grpo-recipes:NAME.

    This file's keys win: maps merge, null removes, lists replace, and `{extend: [...]}` adds to a parent's list.
    """
    model: ModelSection
    tokenizer: TokenizerSection = TokenizerSection.model_construct()
    quantization: QuantizationSection | None = None
    lora: LoraSection | None = None
    dataset: DatasetSection = DatasetSection.model_construct()
    rewards: list[RewardSection] = []
    """The rewards of a completion: their weighted sum, plus `get_reward` of an environment that has one, with the
    weight 1. Without such an environment at least one is required.
    """
    tools: Annotated[list[ToolSection], Field(max_length=64)] = []
    """Functions that the model can call while it answers. The model sees them in this order."""
    environment: EnvironmentSection | None = None
    rollout: RolloutSection | None = None
    evaluation: EvaluationSection | None = None
    generation: GenerationSection = GenerationSection.model_construct()
    vllm_server: VllmServerSection = VllmServerSection.model_construct()
    grpo: GrpoSection = GrpoSection.model_construct()
    training: TrainingSection
    distributed: DistributedSection = DistributedSection.model_construct()
    launch: LaunchSection = LaunchSection.model_construct()
    slurm: SlurmSection = SlurmSection.model_construct()
    logging: LoggingSection = LoggingSection.model_construct()
    guards: GuardsSection = GuardsSection.model_construct()
    preflight: PreflightSection = PreflightSection.model_construct()
    trl: dict[str, Any] = {}
    """Any other GRPOConfig field, checked against the target."""
