"""What one process saw of completions of several turns, as plain values that travel to the other processes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TurnedRow:
    """One completion of the first loss, divided into what was sampled and what the policy was told.

    turns, replies: how many of each. own, told: their tokens. own_left_out, told_trained: those on the wrong side of
    the loss's mask. told_moved: tokens of replies that the loss has a gradient for; None where that is not seen, since
    no token of the completion has one.
    unknown: the place of the first token that is neither sampled nor told, None where all are known.
    """

    turns: int = 0
    replies: int = 0
    own: int = 0
    told: int = 0
    own_left_out: int = 0
    told_trained: int = 0
    told_moved: int | None = None
    unknown: int | None = None


@dataclass(frozen=True, slots=True)
class TurnsSeen:
    """All completions of the first step on one process.

    calls: of tools for each completion, as TRL logs them; None where it does not. written: how some of them begin.
    """

    rows: tuple[TurnedRow, ...]
    calls: float | None
    written: tuple[str, ...]


class SampledTurns:
    """What the generator gave in each turn, by what it was given."""

    def __init__(self) -> None:
        self._turns: dict[Ids, list[Ids]] = {}

    def add(self, contexts: Iterable[Sequence[int]], sampled: Iterable[Sequence[int]]) -> None:
        """One round of turns. contexts: all tokens before each."""
        for context, ids in zip(contexts, sampled, strict=True):
            turns = self._turns.setdefault(tuple(map(int, context)), [])
            if (turn := tuple(map(int, ids))) not in turns:
                turns.append(turn)

    def divided(self, prompt: Ids, completion: Ids) -> list[tuple[int, int]] | None:
        """The turns of a completion, each from a place to another; None where they are not those that were sampled.

        What lies between two turns is a reply. The last turn may be cut where the completion ends.
        """
        whole = prompt + completion
        starts = sorted(
            len(context) - len(prompt)
            for context in self._turns
            if len(prompt) <= len(context) <= len(whole) and whole[: len(context)] == context
        )
        return self._from(0, whole, len(prompt), starts) if starts and starts[0] == 0 else None

    def known(self, prompt: Ids, completion: Ids) -> int:
        """How many tokens from the beginning on are as one of the first turns has them."""
        return max((_alike(turn, completion) for turn in self._turns.get(prompt, [])), default=0)

    def _from(self, start: int, whole: Ids, prompt: int, starts: list[int]) -> list[tuple[int, int]] | None:
        rest = whole[prompt + start :]
        for turn in sorted(self._turns[whole[: prompt + start]], key=len, reverse=True):
            if rest[: len(turn)] != turn[: len(rest)]:
                continue
            end = start + min(len(turn), len(rest))
            if end == len(whole) - prompt:
                return [(start, end)]
            for following in (place for place in starts if place > end):
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
    """What is seen of one completion. mask: ones for the tokens of it that the loss counts; has_gradient: of each."""
    turns = sampled.divided(prompt, completion)
    if turns is None:
        return TurnedRow(unknown=sampled.known(prompt, completion))
    own = [place for start, end in turns for place in range(start, end)]
    is_own = set(own)
    told = [place for place in range(len(completion)) if place not in is_own]
    return TurnedRow(
        turns=len(turns),
        replies=len(turns) - 1,
        own=len(own),
        told=len(told),
        own_left_out=sum(not mask[place] for place in own),
        told_trained=sum(bool(mask[place]) for place in told),
        told_moved=sum(map(has_gradient, told)) if has_gradient is not None and any(map(has_gradient, own)) else None,
    )


def _alike(one: Ids, other: Ids) -> int:
    return next((place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(one))
