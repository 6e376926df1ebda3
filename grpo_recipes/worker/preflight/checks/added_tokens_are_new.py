"""Each of tokenizer.add_tokens is new, and rewards can see it.

What: tokens that are already in the vocabulary, as ordinary or as special tokens.
Why: adding an ordinary token again has no effect. A special token stays special: it is left out of the text that
rewards get, even if the recipe wanted an ordinary token.
Fix: remove it from the list, or choose a different spelling for a mark that rewards must see.
Example: add_tokens has '<|im_end|>', which is already a special token of the tokenizer
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch, mistake
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight._shared.tokens import special_tokens

ID = "PFL015"


def check(inputs: Seen) -> Iterator[Finding]:
    if inputs.tokenizer is None:
        return
    tokens = inputs.plan.tokenizer.add_tokens
    known = [token for token in tokens if inputs.was_known.get(token) is not None]
    new = [token for token in tokens if token not in known]
    for token in known:
        special = inputs.was_known[token] in special_tokens(inputs.tokenizer)
        yield mistake(
            f"add_tokens has {token!r}, which is already a {'special ' if special else ''}token of the tokenizer",
            ("tokenizer", "add_tokens", tokens.index(token)),
            because=("it stays special, and rewards do not see it",) if special else ("adding it changes nothing",),
            fix=f"add_tokens: [{', '.join(map(repr, new))}]",
            patch=(Patch(("tokenizer", "add_tokens"), new),),
            severity="warning" if special else "note",
        )
