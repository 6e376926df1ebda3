"""The assistant's turn ends with a token at which generation ends.

What: preflight renders the chat template with an answer of the assistant. The text after the answer must contain one of
the tokens that end a completion (the tokenizer's end token, those of the model's generation_config.json,
stop_token_ids) or one of the stop strings.
Why: otherwise the model ends its turn as the template taught it, continues with a user turn, and every completion is
cut off at max_completion_length. This happens with base models whose tokenizer has the chat template of their instruct
variant: Qwen2.5 writes <|im_end|> and ends at <|endoftext|>.
Fix: add the token that the template uses to generation.stop_token_ids.
Example: the chat template ends the assistant's turn with '<|im_end|>', and generation does not end there
"""

from collections.abc import Iterator
from typing import Any

from grpo_recipes.contract.findings.finding import Finding, Patch, warning
from grpo_recipes.worker.preflight._shared.reward_seen import cut
from grpo_recipes.worker.preflight._shared.seen import DeclaredEnds, Seen, is_conversational
from grpo_recipes.worker.preflight._shared.tokens import render_prompt, special_tokens, word

ID = "PFL012"
ANSWER = "4"


def check(inputs: Seen) -> Iterator[Finding]:
    ends, data = inputs.ends, inputs.data
    if inputs.tokenizer is None or data is None or ends is None or inputs.template_problem or not inputs.texts:
        return
    conversations = (data.prompts[index] for index in inputs.sample)
    prompt = next((each for each in conversations if is_conversational(each) and each[-1]["role"] == "user"), None)
    tail = None if prompt is None else _tail(inputs, prompt)
    if tail is None:
        return
    ids = inputs.tokenizer(tail, add_special_tokens=False)["input_ids"]
    if any(token in (*ends.tokens, *ends.stop_token_ids) for token in ids) or any(stop in tail for stop in ends.stops):
        return
    yield _fault(inputs.tokenizer, ends, tail, ids)


def _tail(inputs: Seen, prompt: Any) -> str | None:
    """Returns the text after the assistant's answer, None if the answer is not found."""
    try:
        text = render_prompt(inputs, [*prompt, {"role": "assistant", "content": ANSWER}], opened=False)
    except Exception:  # the template renders only prompts
        return None
    before, answer, tail = text.rpartition(ANSWER)
    return tail if answer and before else None


def _fault(tokenizer: Any, ends: DeclaredEnds, tail: str, ids: list[int]) -> Finding:
    words = ", ".join(word(tokenizer, token) for token in (*ends.tokens, *ends.stop_token_ids)) or "nothing"
    special = [token for token in ids if token in special_tokens(tokenizer)]
    if not tail.strip():
        message = "the chat template writes no end after the assistant's answer"
    else:
        message = f"the chat template ends the assistant's turn with {cut(tail)!r}, and generation does not end there"
    return warning(
        message,
        ("generation", "stop_token_ids"),
        because=f"generation ends at {words}",
        fix=f"stop_token_ids: [{special[0]}]" if special else None,
        patch=(Patch(("generation", "stop_token_ids"), [*ends.stop_token_ids, special[0]]),) if special else (),
    )
