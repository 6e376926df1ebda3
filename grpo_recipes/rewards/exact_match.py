"""1.0 for exactly the text of the solution."""

from grpo_recipes.rewards.completion_text import Completion, completion_text


def exact_match(
    completions: list[Completion], *, solution: list[object], ignore_case: bool | None = False, **kwargs: object
) -> list[float | None]:
    """Gives 1.0 to a completion that equals `solution`, else 0.0; white space around either does not count.

    solution: any value, compared as its text; a row whose solution is null gets None, that is, no reward.
    ignore_case: compare without regard to upper and lower case.
    """
    return [
        None
        if wanted is None
        else float(_plain(completion_text(given), ignore_case) == _plain(str(wanted), ignore_case))
        for given, wanted in zip(completions, solution, strict=True)
    ]


def _plain(text: str, ignore_case: bool | None) -> str:
    return text.strip().casefold() if ignore_case else text.strip()
