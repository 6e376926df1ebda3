"""How similar the text in <reversed_text> tags is to the right one, as in the verifiers environment reverse-text."""

import re
from difflib import SequenceMatcher

TAGGED = re.compile(r"<reversed_text>\s*(.*?)\s*</reversed_text>", re.S)


def similarity(completions: list, *, reversed: list[str], **kwargs: object) -> list[float]:
    """Gives difflib's ratio, 0 to 1, of the last tagged text and the column `reversed`; 0 without tags."""
    return [
        SequenceMatcher(None, _tagged(given), wanted).ratio()
        for given, wanted in zip(completions, reversed, strict=True)
    ]


def _tagged(completion: object) -> str:
    text = completion if isinstance(completion, str) else "".join(part.get("content") or "" for part in completion)
    found = TAGGED.findall(text)
    return found[-1] if found else ""
