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
    """Generate with vLLM. auto decides by stack and machine; the plan shows the reason."""
    vllm_mode: str = "auto"
    """colocate (in the training processes), server, or auto."""
    vllm_gpu_memory_utilization: PositiveFraction | Auto = 0.3
    """Share of each GPU's memory that vLLM takes, colocate only. auto: from the model's size, the cache of one
    generation and the memory that the trainer leaves, if these are known, otherwise 0.3.
    """
    vllm_tensor_parallel_size: PositiveInt | Auto = 1
    """GPUs that share one copy of the model in vLLM, colocate only. auto: as few as hold its weights."""
    vllm_max_model_length: PositiveInt | Auto | None = None
    """Longest prompt + completion in tokens. null: the model's own maximum. auto: max_prompt_length +
    max_completion_length if both are known, otherwise null.
    """
    vllm_engine: dict[str, Any] = {}
    """Further arguments of vLLM's engine by vLLM's names, e.g. {enforce_eager: true, max_num_seqs: 64}."""
    max_prompt_length: PositiveInt | None = None
    """Prompt tokens to keep; a longer prompt loses its beginning. null: whole prompts."""
    max_completion_length: PositiveInt = 512
    """Maximum number of tokens of a completion."""
    min_tokens: PositiveInt | None = None
    """Minimum number of tokens of a completion. null: none. Cannot be combined with a stop."""
    max_tool_calling_iterations: PositiveInt | None = None
    """Maximum number of tool replies in one completion. null: no limit except max_completion_length, which also counts
    the tools' replies.
    """
    temperature: PositiveFloat = 1.0
    """Sampling temperature; the log-probs use it too."""
    top_p: PositiveFraction = 1.0
    """Sample from the smallest set of tokens with this total probability. 1: all tokens."""
    top_k: NonNegativeInt = 0
    """Sample from the k most likely tokens. 0: all tokens."""
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Drop tokens less likely than this share of the most likely one. null: drop none."""
    repetition_penalty: PositiveFloat = 1.0
    """Values above 1 discourage tokens that were already used. 1: no effect."""
    stop: list[Word] = []
    """Texts that end a completion, with the token that completes them."""
    stop_token_ids: list[NonNegativeInt] = []
    """Token ids that end a completion."""
    include_stop_str_in_output: Literal[True] = True
    """Always true: the completion keeps the token that completes a stop, since the model has to learn it."""
    generation_kwargs: dict[str, Any] = {}
    """Sampling options without their own key, by their name in vLLM's SamplingParams or transformers' GenerationConfig.
    """
    chat_template_kwargs: dict[str, Any] = {}
    """Variables for the chat template, e.g. {enable_thinking: false}."""
