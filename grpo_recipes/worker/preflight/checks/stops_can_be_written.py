"""The model can write each stop string, and the rewards can see it.

What: stop strings that the vocabulary cannot spell, because no token has one of their characters. Stop strings that are
special tokens: they end the completion, but are left out of the text that rewards get. Stop strings in the middle of
the right answer, which would cut it off.
Why: if the model cannot write a stop, completions are truncated; a format reward that looks for a stop that it cannot
see gives all completions the same reward.
Fix: a different stop string; tokenizer.add_tokens adds new marks as ordinary tokens.
Example: stop '</answer>' cannot be written, since the tokenizer has no token for part of it
Source: trl's grpo_trainer.py (batch_decode with skip_special_tokens=True).
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, note, warning
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.worker.preflight._shared.reward_seen import GOLD
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight._shared.tokens import special_tokens

ID = "PFL013"


def check(inputs: Seen) -> Iterator[Finding]:
    if inputs.tokenizer is None or inputs.ends is None:
        return
    for index, stop in enumerate(inputs.ends.stops):
        key = ("generation", "stop", index)
        yield from _unwritable(inputs, stop, key)
        yield from _invisible(inputs, stop, key)
        yield from _early(inputs, stop, key)


def _unwritable(inputs: Seen, stop: str, key: tuple[str | int, ...]) -> Iterator[Finding]:
    tokenizer = inputs.tokenizer
    ids = tokenizer(stop, add_special_tokens=False)["input_ids"]
    text = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    is_unknown = tokenizer.unk_token_id is not None and tokenizer.unk_token_id in ids
    if not ids or (is_unknown and stop != tokenizer.unk_token) or "".join(stop.split()) not in "".join(text.split()):
        yield warning(
            f"stop {stop!r} cannot be written, since the tokenizer has no token for part of it",
            key,
            because=f"its tokens are {text!r} when decoded",
            fix="a different stop string, or add_tokens under tokenizer",
        )


def _invisible(inputs: Seen, stop: str, key: tuple[str | int, ...]) -> Iterator[Finding]:
    tokenizer = inputs.tokenizer
    special = [text for text in special_tokens(tokenizer).values() if text in stop]
    if special:
        yield note(
            f"stop {stop!r} is not in the text that rewards get",
            key,
            because=f"{special[0]!r} is a special token, and trl decodes completions without special tokens",
            fix="write rewards that do not look for it",
        )


def _early(inputs: Seen, stop: str, key: tuple[str | int, ...]) -> Iterator[Finding]:
    right = inputs.trial_texts.get(GOLD, [])
    cut = [index for index, text in zip(inputs.sample, right, strict=False) if stop in text.rstrip()[:-1]]
    if cut and inputs.data is not None:
        yield warning(
            f"stop {stop!r} is part of the right answer",
            key,
            because=f"column {inputs.reference}, rows {join_items([inputs.data.number(index) for index in cut], 5)}",
            fix="a different stop string",
        )
