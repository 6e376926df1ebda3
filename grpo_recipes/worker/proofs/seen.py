"""One process's observations of its trainer, as plain values to send to the other processes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TurnedRow:
    """One completion of the first loss, divided into sampled tokens and tool replies.

    turns, replies: how many of each. own, reply: their tokens. own_left_out, reply_trained: those on the wrong side of
    the loss mask. reply_moved: reply tokens with a gradient; None if unknown, since no token of the completion has one.
    unknown: index of the first token that is neither sampled nor a reply, or None.
    """

    turns: int = 0
    replies: int = 0
    own: int = 0
    reply: int = 0
    own_left_out: int = 0
    reply_trained: int = 0
    reply_moved: int | None = None
    unknown: int | None = None


@dataclass(frozen=True, slots=True)
class TurnsSeen:
    """All completions of the first step on one process.

    calls: tool calls per completion, as TRL logs them; None if it does not. written: the beginnings of some
    completions.
    """

    rows: tuple[TurnedRow, ...]
    calls: float | None
    written: tuple[str, ...]


class SampledTurns:
    """The tokens that the generator returned in each turn, by its input."""

    def __init__(self) -> None:
        self._turns: dict[Ids, list[Ids]] = {}

    def add(self, contexts: Iterable[Sequence[int]], sampled: Iterable[Sequence[int]]) -> None:
        """Adds one round of turns. contexts: all tokens before each."""
        for context, ids in zip(contexts, sampled, strict=True):
            turns = self._turns.setdefault(tuple(map(int, context)), [])
            if (turn := tuple(map(int, ids))) not in turns:
                turns.append(turn)

    def divided(self, prompt: Ids, completion: Ids) -> list[tuple[int, int]] | None:
        """Returns a completion's turns as (start, end); None if they differ from the sampled turns.

        Tokens between two turns are a reply. The last turn may be cut at the end of the completion.
        """
        whole = prompt + completion
        starts = sorted(
            len(context) - len(prompt)
            for context in self._turns
            if len(prompt) <= len(context) <= len(whole) and whole[: len(context)] == context
        )
        return self._from(0, whole, len(prompt), starts) if starts and starts[0] == 0 else None

    def known(self, prompt: Ids, completion: Ids) -> int:
        """Returns how many tokens from the start match one of the first turns."""
        return max((_alike(turn, completion) for turn in self._turns.get(prompt, [])), default=0)

    def _from(self, start: int, whole: Ids, prompt: int, starts: list[int]) -> list[tuple[int, int]] | None:
        rest = whole[prompt + start :]
        for turn in sorted(self._turns[whole[: prompt + start]], key=len, reverse=True):
            if rest[: len(turn)] != turn[: len(rest)]:
                continue
            end = start + min(len(turn), len(rest))
            if end == len(whole) - prompt:
                return [(start, end)]
            for following in (later_start for later_start in starts if later_start > end):
                later = self._from(following, whole, prompt, starts)
                if later is not None:
                    return [(start, end), *later]
        return None


def turned_row(
    sampled: SampledTurns,
    prompt: Ids,
    completion: Ids,
    mask: Sequence[int],
    has_gradient: Callable[[int], bool] | None,
) -> TurnedRow:
    """Returns one completion's turns and masks. mask: 1 for tokens in the loss; has_gradient: of each token."""
    turns = sampled.divided(prompt, completion)
    if turns is None:
        return TurnedRow(unknown=sampled.known(prompt, completion))
    own = [index for start, end in turns for index in range(start, end)]
    is_own = set(own)
    replied = [index for index in range(len(completion)) if index not in is_own]
    return TurnedRow(
        turns=len(turns),
        replies=len(turns) - 1,
        own=len(own),
        reply=len(replied),
        own_left_out=sum(not mask[index] for index in own),
        reply_trained=sum(bool(mask[index]) for index in replied),
        reply_moved=sum(map(has_gradient, replied))
        if has_gradient is not None and any(map(has_gradient, own))
        else None,
    )


def _alike(ids: Ids, other: Ids) -> int:
    return next((index for index, pair in enumerate(zip(ids, other, strict=False)) if pair[0] != pair[1]), len(ids))


@dataclass(frozen=True, slots=True)
class Forward:
    """One forward pass for the loss: B completions of C columns after prompts of P, a vocabulary of V.

    longest: tokens of the longest completion; with less padding only these columns are scored. logits, log_probs:
    shapes of the model's outputs, or None.
    """

    batch: int
    prompt: int
    completion: int
    longest: int
    vocabulary: int
    logits: tuple[int, ...] | None
    log_probs: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Gradient:
    """One trainable tensor after the backward passes of a step.

    due: its module took part in the loss. present: it got a gradient, maybe of zeros. nonzero: not all zeros.
    """

    name: str
    due: bool
    present: bool
    nonzero: bool


@dataclass(frozen=True, slots=True)
class Precision:
    """Dtypes by name, such as "float32". weights: without adapters and packed weights.

    adapter: LoRA tensors without DoRA's magnitudes. compute: autocast's, else that of the first linear layer's output,
    None if none ran. packed: compute dtypes of the 4-bit layers. scores: like compute, while completions were scored
    before the loss.
    """

    weights: tuple[str, ...]
    adapter: tuple[str, ...]
    compute: str | None
    packed: tuple[str, ...]
    scores: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reference:
    """The trainer's reference model. quantized: the classes of its quantized layers."""

    weights: tuple[str, ...]
    quantized: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Completion:
    """One completion and its mask.

    tokens: those in the mask. is_prefix: the mask is ones, then zeros. end: tokens up to and including the first end,
    None without one. padding: trained PAD tokens at its very end that do not end a completion.
    """

    tokens: int
    is_prefix: bool
    end: int | None
    padding: int


@dataclass(frozen=True, slots=True)
class Completions:
    """All completions of the first step on one process.

    limit: maximum tokens that the generator writes. tools: tool replies come between the model's turns. masked:
    truncated ones are not trained.
    """

    rows: tuple[Completion, ...]
    limit: int
    tools: bool
    masked: bool


@dataclass(frozen=True, slots=True)
class Sampled:
    """The difference between vLLM, transformers' generate or the loss, and the policy on tokens of some completions.

    tokens: how many were compared. apart: sum of the |differences| of log-probabilities in nats; most: the largest.
    moved: the same sum between the policy now and at the first generation, over moved_tokens of its tokens. cut: tokens
    that vLLM drew although the policy's sampling excludes them, or that a different model drew. dtype: of vLLM, if
    known. reason: why nothing could be compared, else "".
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
class ImagesSeen:
    """The images that the model received.

    given: images in the rows of the first generation. generated, trained: digests of their parts, such as an image or a
    tile, in that generation and in the losses. without: losses without any, although their prompts have image tokens or
    each row has an image. misplaced: rows of losses with images that no generated row with the same tokens had.
    rows: those that could be compared. tokens: trained image tokens.
    """

    given: int
    generated: frozenset[str]
    trained: frozenset[str]
    without: int
    misplaced: int = 0
    rows: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class FirstStep:
    """One process's observations of the first step.

    processes: by accelerate; reached: how many answered in a sum over all. memory_gib: peak resident memory; gpu_gib:
    peak of the GPU, None without one. losses: of all backward passes. noise: the largest advantage in groups without
    variance, if the shim should leave none. sampled: of vLLM or of
    generate. turns: None without tools. scored: the loss
    compared with the policy, in first and later turns; () without tools. unpadded: scores of the shim less_padding
    compared with TRL's; None if TRL scores. images: None for text rows.
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
    unpadded: Sampled | None = None
    images: ImagesSeen | None = None


def completion(
    ids: Sequence[int],
    mask: Sequence[int],
    ends: frozenset[int],
    padding: int | None,
    stop_end: Callable[[Sequence[int]], int | None],
    start: int = 0,
) -> Completion:
    """Returns one row as a Completion. ids, mask: (C,); stop_end: tokens up to the first stop string, None without one.

    start: where the last turn begins; the end is searched in that turn.
    """
    tokens = sum(mask)
    is_prefix = all(mask[:tokens])
    trained = list(ids[:tokens])
    by_token = next((index + 1 for index, token in enumerate(trained) if index >= start and token in ends), None)
    by_text = stop_end(trained[start:])
    candidates = [end for end in (by_token, None if by_text is None else start + by_text) if end is not None]
    tail = 0
    while tail < tokens - start and padding not in ends and trained[-1 - tail] == padding:
        tail += 1
    return Completion(tokens, is_prefix, min(candidates, default=None), tail)
