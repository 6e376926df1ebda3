"""A penalty for completions that repeat themselves."""

from grpo_recipes.rewards.completion_text import Completion, check_number, check_whole_number


def repetition_penalty(
    completions: list[Completion],
    *,
    completion_ids: list[list[int]],
    ngram_size: int = 3,
    max_penalty: float = -1.0,
    **kwargs: object,
) -> list[float | None]:
    """Gives `max_penalty` times the share of token n-grams that are repetitions, and 0.0 without any.

    The share is 1 - different n-grams / all n-grams; a completion with fewer than ngram_size tokens has none. This is
    the repetition penalty of appendix C.2 of arXiv 2502.03373, and trl.rewards.get_repetition_penalty_reward with the
    same options; open-r1's reward of this name counts words instead. With tools their calls and replies count, too.
    ngram_size: tokens of an n-gram. max_penalty: the lowest reward, at most 0.
    """
    what = "repetition_penalty: "
    check_whole_number(ngram_size, f"{what}ngram_size", 1)
    check_number(max_penalty, f"{what}max_penalty")
    if max_penalty > 0:
        raise ValueError(f"{what}max_penalty {max_penalty} would reward repetition; it is at most 0")
    return [_share_repeated(ids, ngram_size) * max_penalty or 0.0 for ids in completion_ids]


def _share_repeated(tokens: list[int], size: int) -> float:
    """The share of the n-grams that occurred before."""
    ngrams = list(zip(*(tokens[start:] for start in range(size)), strict=False))
    return 1 - len(set(ngrams)) / len(ngrams) if ngrams else 0.0
