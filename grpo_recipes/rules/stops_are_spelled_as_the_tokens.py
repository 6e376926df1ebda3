"""A stop that means an added token is spelled like the token.

A stop can be any text, so TRL silently accepts a misspelt one. The token never completes it, and each completion
continues to max_completion_length. A misspelling is one letter that is missing, doubled, swapped with its neighbour or
replaced, or letters in a different case. Closing tags, numbers and a plural s do not count, and words with fewer than
four letters are not checked.
"""

import json
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.adapter_modules import words
from grpo_recipes.rules._shared.context import Context

ID = "GEN014"
STOP, TOKENS = "generation.stop", "tokenizer.add_tokens"
LETTERS = 4


def check(context: Context) -> Iterator[Finding]:
    stops, tokens = words(context.value(STOP)), words(context.value(TOKENS))
    meant = {stop: token for stop in stops if (token := _token_meant_by(stop, tokens)) is not None}
    mended = list(dict.fromkeys(meant.get(stop, stop) for stop in stops))
    for stop, token in meant.items():
        if token in stops:
            continue  # it ends the completion itself, and the other text is an additional stop
        yield context.wrong(
            f"the stop {stop} is spelled differently from the added token {token}",
            STOP,
            "the token does not complete this text, so completions continue after the token",
            mended,
            severity="warning",
            fix=f"stop: {json.dumps(mended, ensure_ascii=False)}",
            mark=context.source.mark(("generation", "stop", stops.index(stop))),
        )


def _token_meant_by(stop: str, tokens: list[str]) -> str | None:
    """The token that a stop misspells, None if there is none or if a token contains the stop."""
    if any(stop in token for token in tokens) or sum(map(str.isalpha, stop)) < LETTERS:
        return None
    return next((token for token in tokens if _is_a_slip(stop, token)), None)


def _is_a_slip(written: str, token: str) -> bool:
    if written.casefold() == token.casefold():
        return True
    start = next((index for index, (a, b) in enumerate(zip(written, token, strict=False)) if a != b), -1)
    if start < 0:
        start = min(len(written), len(token))
    rest, other = written[start:], token[start:]
    if len(rest) == len(other):
        is_exchanged = rest[:2] == other[1::-1] and rest[2:] == other[2:]
        return (is_exchanged or rest[1:] == other[1:]) and (rest[0] + other[0]).isalpha()
    longer, shorter = (rest, other) if len(rest) > len(other) else (other, rest)
    is_plural = longer[0] == "s" and not longer[1:2].isalpha()
    return longer[1:] == shorter and longer[0].isalpha() and not is_plural
