"""1.0 for a completion made of the wanted tags in their order."""

import re
from collections.abc import Sequence

from grpo_recipes.rewards.completion_text import Completion, completion_text


def tag_format(
    completions: list[Completion], *, tags: Sequence[str] = ("think", "answer"), **kwargs: object
) -> list[float | None]:
    """Gives 1.0 to <think>...</think><answer>...</answer> and nothing else, else 0.0.

    tags: the names in their order, each opened and closed once; white space around and between them is ignored.
    Raises ValueError for a name with a bracket, of which <<think>> would be made, and for no names.
    """
    if not tags or any(not tag or set(tag) & set("<>/") for tag in tags):
        raise ValueError(f"tag_format: tags {list(tags)!r} is not a list of names without brackets, such as [think]")
    shape = re.compile(r"\s*" + r"\s*".join(f"<{re.escape(tag)}>.*?</{re.escape(tag)}>" for tag in tags) + r"\s*", re.S)
    marks = [mark for tag in tags for mark in (f"<{tag}>", f"</{tag}>")]
    texts = [completion_text(completion) for completion in completions]
    return [
        float(all(text.count(mark) == marks.count(mark) for mark in marks) and shape.fullmatch(text) is not None)
        for text in texts
    ]
