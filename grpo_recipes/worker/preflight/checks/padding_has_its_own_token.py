"""The tokenizer has its own padding token.

What: a tokenizer without a padding token, or with the end token as padding.
Why: TRL then pads with the end token and masks by position, so this run trains correctly. It matters later: a script
that masks every padding token in the labels also masks the end token, so the model forgets how to end.
Fix: not needed for this run.
Example: the tokenizer has no padding token; trl uses its end token instead
Source: trl's grpo_trainer.py (pad_token = eos_token), data collators of transformers 5.23.0.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, mistake, note
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL016"


def check(inputs: Seen) -> Iterator[Finding]:
    if inputs.tokenizer is None:
        return
    key = ("model", "model_name_or_path")
    if inputs.tokenizer.eos_token_id is None:
        yield mistake(
            "the tokenizer has no end token",
            key,
            because="no completion could end, and trl uses it for padding",
            fix="eos_token in tokenizer_config.json of the model",
        )
    elif inputs.tokenizer.pad_token_id is None:
        yield note("the tokenizer has no padding token; trl uses its end token instead", key)
    elif inputs.tokenizer.pad_token_id == inputs.tokenizer.eos_token_id:
        yield note(f"the tokenizer pads with its end token {inputs.tokenizer.eos_token!r}", key)
