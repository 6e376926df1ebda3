"""What one process has when its trainer is built, as plain values that travel to the other processes."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VllmTokens:
    """What vLLM knows of the tokens. vocabulary: rows of its model, None where it does not say.

    beyond: needed tokens that it has no row for, in words. stops: of each stop that it has to see as a text, the
    text, the ids that the trainer's tokenizer makes of it and what they spell in vLLM's. spells: whether it says that.
    """

    vocabulary: int | None
    beyond: tuple[str, ...]
    stops: tuple[tuple[str, tuple[int, ...], str], ...]
    spells: bool


@dataclass(frozen=True, slots=True)
class Loaded:
    """The trainer of one process. arguments: those that the plan names, after all have had their say.

    trained: names of the parameters with requires_grad; expected: those that the plan trains; numbers: how many numbers
    the trained ones are, on all ranks together. weights: dtypes of the model's own weights, without adapters and packed
    4-bit weights. vllm_dtype, vllm_tokens: None where there is no vLLM, or it cannot be seen from this process.
    """

    rank: int
    deepspeed_stage: int
    arguments: Mapping[str, object]
    trained: frozenset[str]
    expected: frozenset[str]
    numbers: int
    weights: tuple[str, ...]
    device: str
    parameter_devices: tuple[str, ...]
    vllm_dtype: str | None = None
    vllm_tokens: VllmTokens | None = None
