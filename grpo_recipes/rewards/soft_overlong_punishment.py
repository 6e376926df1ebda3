"""DAPO's penalty for completions that are too long, or nearly so."""

from grpo_recipes.rewards.completion_text import Completion, check_whole_number


def soft_overlong_punishment(
    completions: list[Completion],
    *,
    completion_ids: list[list[int]],
    soft_punish_cache: int,
    max_completion_len: int | None = None,
    **kwargs: object,
) -> list[float | None]:
    """Gives 0.0 until `soft_punish_cache` tokens before the maximum, then less, and -1.0 from the maximum on.

    It falls from 0.0 at max_completion_len - soft_punish_cache tokens to -1.0 at max_completion_len, linearly. This is
    equation 13 of DAPO (arXiv 2503.14476), and trl.rewards.get_soft_overlong_punishment with the same options. With
    tools their calls and replies count, too.
    soft_punish_cache: number of penalized tokens before the maximum; DAPO's is a fifth of the maximum. 0: only
    completions longer than max_completion_len.
    max_completion_len: null is the recipe's generation.max_completion_length.
    """
    what = "soft_overlong_punishment: "
    check_whole_number(max_completion_len, f"{what}max_completion_len", 1)
    check_whole_number(soft_punish_cache, f"{what}soft_punish_cache", 0)
    assert max_completion_len is not None
    if soft_punish_cache > max_completion_len:
        raise ValueError(
            f"{what}soft_punish_cache {soft_punish_cache} is more than max_completion_len {max_completion_len}"
        )
    unpunished = max_completion_len - soft_punish_cache
    return [_punishment(len(ids), unpunished, max_completion_len) for ids in completion_ids]


def _punishment(length: int, unpunished: int, longest: int) -> float:
    if length <= unpunished:
        return 0.0
    return (unpunished - length) / (longest - unpunished) if length <= longest else -1.0
