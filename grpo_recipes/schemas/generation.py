"""`generation`: how completions are sampled."""

from typing import Annotated, Any, Literal

from pydantic import Field

from grpo_recipes.schemas.section import (
    Auto,
    NonNegativeInt,
    PositiveFloat,
    PositiveFraction,
    PositiveInt,
    Section,
    Word,
)


class GenerationSection(Section):
    """How completions are sampled."""

    use_vllm: bool | Auto = False
    """Generate with vLLM. auto decides by stack and machine, with the reason in the plan."""
    vllm_mode: str = "auto"
    """auto, or one of TRL's own: colocate (in the training process) or server."""
    vllm_gpu_memory_utilization: PositiveFraction | Auto = 0.3
    """Share of each GPU's memory that vLLM takes, colocate only. auto: by the model's size, the cache that one
    generation needs and what the trainer leaves, where these are known, else 0.3."""
    vllm_tensor_parallel_size: PositiveInt | Auto = 1
    """GPUs that share one copy of the model in vLLM, colocate only. auto: as few as hold its weights."""
    vllm_max_model_length: PositiveInt | Auto | None = None
    """Longest prompt + completion in tokens. null: the model's own maximum. auto: max_prompt_length +
    max_completion_length where both are known, else null."""
    vllm_engine: dict[str, Any] = {}
    """Further arguments of vLLM's engine by their own names, e.g. {enforce_eager: true, max_num_seqs: 64}."""
    max_prompt_length: PositiveInt | None = None
    """Prompt tokens that are kept; a longer prompt loses its beginning. null keeps whole prompts."""
    max_completion_length: PositiveInt = 512
    """Tokens after which a completion is cut off."""
    min_tokens: PositiveInt | None = None
    """Tokens before which a completion does not end. null: none. Not together with a stop."""
    max_tool_calling_iterations: PositiveInt | None = None
    """How often the model may be answered by its `tools` in one completion. null is without limit, but for
    max_completion_length, which counts the tools' answers too."""
    temperature: PositiveFloat = 1.0
    """Temperature of sampling; log-probs are divided by it too."""
    top_p: PositiveFraction = 1.0
    """Sample from the smallest set of tokens with this probability. 1 takes all."""
    top_k: NonNegativeInt = 0
    """Sample from the k most likely tokens. 0 takes all."""
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Drop tokens less likely than this share of the most likely one. null: none."""
    repetition_penalty: PositiveFloat = 1.0
    """Above 1 discourages tokens that were already used. 1 changes nothing."""
    stop: list[Word] = []
    """The completion ends with the token that completes one of these texts."""
    stop_token_ids: list[NonNegativeInt] = []
    """The completion ends with one of these token ids."""
    include_stop_str_in_output: Literal[True] = True
    """Always true: the token that completes a stop stays, since the model is trained to produce it."""
    generation_kwargs: dict[str, Any] = {}
    """What the format has no key for, by the name that vLLM's SamplingParams or transformers' GenerationConfig has."""
    chat_template_kwargs: dict[str, Any] = {}
    """Variables for the chat template, e.g. {enable_thinking: false}."""
