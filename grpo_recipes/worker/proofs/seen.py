"""What one process saw of its trainer, as plain values that travel to the other processes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from grpo_recipes.worker.proofs.turns_seen import TurnsSeen


@dataclass(frozen=True, slots=True)
class Forward:
    """One forward pass for the loss: B completions of C columns after prompts of P, a vocabulary of V.

    logits, log_probs: shapes of what the model returned, None when it returned none.
    """

    batch: int
    prompt: int
    completion: int
    vocabulary: int
    logits: tuple[int, ...] | None
    log_probs: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Gradient:
    """One trainable tensor after the backward passes of a step.

    due: its module took part in the loss. present: a gradient arrived, maybe of zeros. nonzero: not all zeros.
    """

    name: str
    due: bool
    present: bool
    nonzero: bool


@dataclass(frozen=True, slots=True)
class Precision:
    """Dtypes by their bare names. weights: without adapters and packed weights.

    adapter: LoRA tensors less DoRA's magnitudes. compute: autocast's, else that of the first linear layer's
    output, None if none ran.
    packed: compute dtypes of the 4-bit layers.
    """

    weights: tuple[str, ...]
    adapter: tuple[str, ...]
    compute: str | None
    packed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """The reference model that the trainer holds. quantized: the classes of its quantized layers."""

    weights: tuple[str, ...]
    quantized: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Completion:
    """One completion and its mask.

    tokens: those the mask trains. is_prefix: the mask is ones, then zeros. end: tokens up to and with the first
    that ends it, None without one. padding: trained PAD tokens at its very end that do not end a completion.
    """

    tokens: int
    is_prefix: bool
    end: int | None
    padding: int


@dataclass(frozen=True, slots=True)
class Completions:
    """All completions of the first step on one process.

    limit: the longest that the generator may write. tools: other texts stand between the model's own.
    masked: truncated ones are not trained. clipped_ratio: what TRL logs for them, None if it covers others too.
    """

    rows: tuple[Completion, ...]
    limit: int
    tools: bool
    masked: bool
    clipped_ratio: float | None


@dataclass(frozen=True, slots=True)
class Sampled:
    """What vLLM, or the loss, says of the tokens that were sampled against the policy, on some completions.

    tokens: how many were compared. apart: sum of the |differences| of log-probabilities in nats; most: the largest.
    moved: the same sum for how far the policy went from where it was at the first generation, over moved_tokens
    tokens of that one. cut: tokens that the policy gives no probability with this sampling, which vLLM drew.
    dtype: of vLLM where it can be seen. reason: why nothing could be compared, else "".
    """

    tokens: int = 0
    apart: float = 0.0
    most: float = 0.0
    moved: float = 0.0
    moved_tokens: int = 0
    cut: int = 0
    dtype: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class FirstStep:
    """The first step of one process.

    processes: as accelerate says; reached: how many answered in a sum over all. memory_gib: resident peak;
    gpu_gib: peak of the GPU, None without one. losses: of all backward passes. noise: the largest advantage where the
    shim leaves none, in groups without variance. sampled: None without vLLM. turns: None
    without tools. scored: the loss against the policy, in first turns and in later ones; () without tools.
    """

    rank: int
    processes: int
    reached: int
    deepspeed_stage: int
    device: str
    parameter_devices: tuple[str, ...]
    forwards: tuple[Forward, ...]
    losses: tuple[float, ...]
    gradients: tuple[Gradient, ...]
    precision: Precision
    reference: Reference | None
    completions: Completions
    memory_gib: float
    gpu_gib: float | None
    sampled: Sampled | None = None
    turns: TurnsSeen | None = None
    scored: tuple[Sampled, ...] = ()
    noise: float = 0.0


def completion(
    ids: Sequence[int],
    mask: Sequence[int],
    ends: frozenset[int],
    padding: int | None,
    stop_end: Callable[[Sequence[int]], int | None],
    start: int = 0,
) -> Completion:
    """What is seen of one row. ids, mask: (C,); stop_end: tokens up to the first stop text, None without one.

    start: where its last turn begins, in which its end is looked for.
    """
    tokens = sum(mask)
    is_prefix = all(mask[:tokens])
    trained = list(ids[:tokens])
    by_token = next((place + 1 for place, token in enumerate(trained) if place >= start and token in ends), None)
    by_text = stop_end(trained[start:])
    found = [end for end in (by_token, None if by_text is None else start + by_text) if end is not None]
    tail = 0
    while tail < tokens - start and padding not in ends and trained[-1 - tail] == padding:
        tail += 1
    return Completion(tokens, is_prefix, min(found, default=None), tail)
