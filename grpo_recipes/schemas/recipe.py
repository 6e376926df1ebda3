"""The recipe and the sections of its model, with the defaults of format 1."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticKnownError

from grpo_recipes.schemas.running import (
    DistributedSection,
    GuardsSection,
    LaunchSection,
    LoggingSection,
    PreflightSection,
    SlurmSection,
    VllmServerSection,
)
from grpo_recipes.schemas.section import NonNegativeInt, OpenSection, PositiveInt, Section, Word
from grpo_recipes.schemas.task import (
    DatasetSection,
    EnvironmentSection,
    NamedEnvironmentSection,
    RewardSection,
    RolloutSection,
    SourceSection,
    ToolSection,
)
from grpo_recipes.schemas.training import EvaluationSection, GenerationSection, GrpoSection, TrainingSection
from grpo_recipes.schemas.warm_start import WarmStartSection


class ModelSection(Section):
    """The policy that is trained."""

    from_run: Word | None = None
    """A run to continue from: its run folder, one of its checkpoints, or the folder or hub id of a PEFT adapter. Model,
    revision, tokenizer with its added tokens, chat template and adapter come from it. null: start from
    model_name_or_path.
    """
    model_name_or_path: Annotated[Word | None, Field(validate_default=True)] = None
    """Hub id, or a folder: `./folder` or an existing path is local, relative to this file. Required, except with
    from_run, where it is optional: the current path of the adapter's base model.
    """
    model_revision: Word | None = None
    """Branch, tag or commit of the hub model. null: the newest commit of its main branch."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Data type of the weights. float32 is TRL's default; the machine never chooses."""
    attn_implementation: Word = "auto"
    """Attention kernel, e.g. sdpa, flash_attention_2, eager. auto: transformers chooses by machine."""
    trust_remote_code: bool = False
    """Run the Python code that comes with the model. A run lists it and asks for consent."""

    @field_validator("model_name_or_path")
    @classmethod
    def _is_named_somewhere(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None and info.data.get("from_run") is None:
            raise PydanticKnownError("missing")
        return value


class QuantizationSection(OpenSection):
    """How the frozen base model is quantized; any BitsAndBytesConfig field. Without this section: not quantized."""

    load_in_4bit: bool = False
    """Load the weights of linear layers in 4 bits."""
    load_in_8bit: bool = False
    """Load the weights of linear layers in 8 bits (LLM.int8)."""
    bnb_4bit_quant_type: Literal["fp4", "nf4"] = "fp4"
    """4-bit number format. fp4 is BitsAndBytesConfig's default; QLoRA uses nf4."""
    bnb_4bit_use_double_quant: bool = False
    """Also quantize the quantization constants, which saves about 0.4 bits per weight."""
    bnb_4bit_compute_dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Data type of the matrix products."""


class LoraSection(OpenSection):
    """A low-rank adapter on a frozen base; any LoraConfig field. Without this section every weight is trained."""

    continue_: Annotated[bool, Field(alias="continue")] = False
    """Continue the adapter of model.from_run, which determines its shape; only lora_dropout may differ. false: merge
    the adapter of from_run, if it has one, into the model, and start a new adapter.
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
    """Biases to train in addition to the adapter."""


class TokenizerSection(Section):
    """Changes to the model's own tokenizer."""

    chat_template_path: Word | None = None
    """A jinja file with the chat template. null: the model's own."""
    add_tokens: list[Word] = []
    """New ordinary (not special) tokens that the model must learn, e.g. ["<search>"]."""


class Recipe(Section):
    """One GRPO experiment and how it is run."""

    model_config = ConfigDict(defer_build=False, title="grpo-run recipe")

    recipe: Literal[1]
    """Version of this format."""
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
    """Short name, part of the run folder's name: lower-case letters, digits, dot, dash, underscore."""
    description: str = ""
    """One sentence about what is trained, and on which data."""
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
    datasets: Annotated[list[SourceSection], Field(max_length=64)] = []
    """A mixture of several sources, instead of `dataset`; training.max_steps determines how many prompts are
    drawn. The held-out rows of `evaluation` become prompts, and are judged, like the rows of the first source.
    """
    rewards: list[RewardSection] = []
    """The rewards. A completion gets their weighted sum, plus the `get_reward` of its environment, if the class has
    that method, with weight 1. At least one reward is required, unless an environment has `get_reward`.
    """
    tools: Annotated[list[ToolSection], Field(max_length=64)] = []
    """Functions that the model can call while it answers. The model sees them in this order."""
    environment: EnvironmentSection | None = None
    environments: Annotated[list[NamedEnvironmentSection], Field(max_length=16)] = []
    """Several environments, instead of `environment`. Each row names its environment in the column `environment`, of
    the data or of `columns`. The model sees only that environment's methods, and `reset` does not get the column.
    """
    rollout: RolloutSection | None = None
    evaluation: EvaluationSection | None = None
    generation: GenerationSection = GenerationSection.model_construct()
    vllm_server: VllmServerSection = VllmServerSection.model_construct()
    grpo: GrpoSection = GrpoSection.model_construct()
    training: TrainingSection
    warm_start: WarmStartSection | None = None
    distributed: DistributedSection = DistributedSection.model_construct()
    launch: LaunchSection = LaunchSection.model_construct()
    slurm: SlurmSection = SlurmSection.model_construct()
    logging: LoggingSection = LoggingSection.model_construct()
    guards: GuardsSection = GuardsSection.model_construct()
    preflight: PreflightSection = PreflightSection.model_construct()
    trl: dict[str, Any] = {}
    """Any other GRPOConfig field, checked against the target."""
