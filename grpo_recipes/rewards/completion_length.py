"""Less reward for more characters."""

from grpo_recipes.rewards.completion_text import Completion, completion_text


def completion_length(
    completions: list[Completion], *, target: float = 0, max_characters: float = 1000, **kwargs: object
) -> list[float | None]:
    """Gives 1.0 up to `target` characters, then linearly less, and 0.0 from `max_characters` on.

    Both count characters of the decoded text, not tokens.
    Raises ValueError if max_characters is not greater than target.
    """
    if max_characters <= target:
        raise ValueError(f"completion_length: max_characters {max_characters} is not greater than target {target}")
    lengths = [len(completion_text(completion)) for completion in completions]
    return [min(1.0, max(0.0, (max_characters - length) / (max_characters - target))) for length in lengths]
