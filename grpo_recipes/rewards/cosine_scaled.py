"""More for a right answer that is short, less for a wrong one that is short."""

import math

from grpo_recipes.rewards.accuracy import accuracy
from grpo_recipes.rewards.completion_text import Completion, check_number, check_whole_number


def cosine_scaled(
    completions: list[Completion],
    *,
    solution: list[object],
    completion_ids: list[list[int]],
    max_len: int | None = None,
    min_value_wrong: float = -1.0,
    max_value_wrong: float = -0.5,
    min_value_correct: float = 0.5,
    max_value_correct: float = 1.0,
    **kwargs: object,
) -> list[float | None]:
    """Gives a right answer `max_value_correct`, a wrong one `min_value_wrong`, and nearer to 0 the more tokens it has.

    From 0 to max_len tokens a right answer falls to min_value_correct and a wrong one rises to max_value_wrong, both
    along half a cosine; longer ones stay there. The reward `accuracy` decides what is right, and which rows get None.
    This is the cosine reward of appendix C.1 of arXiv 2502.03373, and trl.rewards.get_cosine_scaled_reward with the
    same options, which reads answers in LaTeX alone. open-r1's `cosine` counts characters. With tools their calls and
    replies count, too.
    solution: as of accuracy. max_len: null is the recipe's generation.max_completion_length.
    """
    what = "cosine_scaled: "
    check_whole_number(max_len, f"{what}max_len", 1)
    assert max_len is not None
    wrong, right = (min_value_wrong, max_value_wrong), (min_value_correct, max_value_correct)
    for kind, (least, most) in (("wrong", wrong), ("correct", right)):
        check_number(least, f"{what}min_value_{kind}")
        check_number(most, f"{what}max_value_{kind}")
        if least > most:
            raise ValueError(f"{what}min_value_{kind} {least} is more than max_value_{kind} {most}")
    judged = zip(accuracy(completions, solution=solution), completion_ids, strict=True)
    return [
        None if value is None else _scale(len(ids) / max_len, *(right if value else reversed(wrong)))
        for value, ids in judged
    ]


def _scale(progress: float, at_the_end: float, at_the_start: float) -> float:
    return at_the_end + 0.5 * (at_the_start - at_the_end) * (1.0 + math.cos(min(progress, 1.0) * math.pi))
