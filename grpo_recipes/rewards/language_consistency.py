"""The share of a completion's letters that belong to the wanted scripts."""

from collections.abc import Sequence
from importlib import import_module

from grpo_recipes.rewards.completion_text import Completion, completion_text

LETTERS = r"[^\P{L}\p{Script=Common}\p{Script=Inherited}]"
"""Letters that belong to a script, in the syntax of the package regex; not µ and the letters of formulas, as 𝑥."""


def language_consistency(
    completions: list[Completion], *, scripts: Sequence[str], **kwargs: object
) -> list[float | None]:
    """Gives the share of the letters that belong to one of `scripts`, from 0.0 to 1.0, and 0.0 without any letter.

    It is DeepSeek-R1's reward for a single language (arXiv 2501.12948), as far as scripts distinguish languages:
    Chinese from English, but not French from English. Each letter counts, also in code, formulas and names; R1 counts
    words. Digits, signs and white space do not count.
    scripts: names of Unicode's scripts, such as [Latin], [Han], [Cyrillic], or [Han, Hiragana, Katakana] for Japanese.
    """
    regex = import_module("regex")  # a requirement of transformers
    if isinstance(scripts, str) or not scripts or not all(isinstance(script, str) for script in scripts):
        raise ValueError(f"language_consistency: scripts {scripts!r} is not a list of script names, such as [Latin]")
    classes = [rf"\p{{Script={script}}}" for script in scripts]
    for script, named in zip(scripts, classes, strict=True):
        try:
            regex.compile(named if script.replace("_", "").isalpha() else "(")
        except regex.error:
            raise ValueError(
                f"language_consistency: Unicode has no script {script!r}; some are Latin, Han, Cyrillic, Arabic, Hangul"
            ) from None
    letter, wanted = regex.compile(LETTERS), regex.compile("|".join(classes))
    texts = ["".join(letter.findall(completion_text(completion))) for completion in completions]
    return [len(wanted.findall(letters)) / len(letters) if letters else 0.0 for letters in texts]
