"""Tokenizes prompts as TRL does."""

import hashlib
import math
from collections.abc import Sequence
from typing import Any

from grpo_recipes.worker._shared.inputs import IMAGES, decode_images, prompt_with_images
from grpo_recipes.worker.data.chosen_rows import refuse_text
from grpo_recipes.worker.data.dataset import prompts_of
from grpo_recipes.worker.data.image_files import open_image
from grpo_recipes.worker.data.images import refuse_written_tokens, rows_of_text
from grpo_recipes.worker.data.limits import TooMuch, limit_block
from grpo_recipes.worker.preflight._shared.seen import Rows, Seen, chat_template_kwargs, is_conversational


def render_prompt(inputs: Seen, prompt: Any, *, opened: bool = True) -> str:
    """Returns a prompt as the text that the model continues, "" if none; opened: with the generation prompt."""
    if not is_conversational(prompt):
        return str(prompt or "")
    how = {"tokenize": False, "add_generation_prompt": opened, **_with_tools(inputs), **chat_template_kwargs(inputs)}
    try:
        with limit_block():
            return str(inputs.tokenizer.apply_chat_template(prompt, **how))
    except TooMuch as problem:
        raise RuntimeError(str(problem)) from None


def tokens_of(inputs: Seen, prompt: Any) -> list[int]:
    """Returns a prompt's token ids. Plain texts get special tokens; rendered conversations already have them."""
    is_messages = is_conversational(prompt)
    text = render_prompt(inputs, prompt)
    ids: list[int] = inputs.tokenizer(text, add_special_tokens=not is_messages)["input_ids"]
    return ids


def ids_of_completion(inputs: Seen, prompt: Any, completion: list[dict[str, Any]]) -> list[int]:
    """Returns the token ids of a completion of several messages after its prompt; [] if the template refuses it."""
    if inputs.tokenizer is None or inputs.template_problem:
        return []
    try:
        before = render_prompt(inputs, prompt)
        text = render_prompt(inputs, [*prompt, *completion], opened=False)
    except Exception:  # the template does not accept the whole conversation: TRL renders replies separately
        return []
    ids: list[int] = inputs.tokenizer(text[len(before) :], add_special_tokens=False)["input_ids"]
    return ids


def _with_tools(inputs: Seen) -> dict[str, Any]:
    """Returns what TRL passes to the template if there are tools."""
    if inputs.tools is None:
        return {}
    own = {} if inputs.template is None else {"chat_template": inputs.template}
    return {"tools": inputs.tools.schemas or None, **own}


def prompts_seen(rows: Any) -> list[Any]:
    """Returns the prompts of rows, with a digest instead of each image for comparisons."""
    if IMAGES not in rows.column_names:
        return list(prompts_of(rows))
    return [
        prompt_with_images(row["prompt"], [hashlib.sha256(image["bytes"]).hexdigest()[:12] for image in row[IMAGES]])
        for row in rows.select_columns(["prompt", IMAGES])
    ]


def as_rewarded(rows: Rows, indices: Sequence[int]) -> list[dict[str, Any]]:
    """Returns rows as rewards get them, with their images."""
    rewarded = [decode_images(rows.rows[index]) for index in indices]
    return [{**row, "prompt": prompt_with_images(row["prompt"], row.get(IMAGES))} for row in rewarded]


def measure_with_images(inputs: Seen, data: Rows) -> tuple[list[int], list[int], int]:
    """Returns the indices of prompts, their token counts including image tokens, and the most pixel values of a row.

    The prompts are the sample, and the rows with the most pixels and with the narrowest image. Raises Refused for an
    image token in a text, and ValueError with the row if the processor rejects its images.
    """
    for rows in (data, *inputs.held_out):
        refuse_written_tokens(inputs.processor, rows.rows, rows.where, rows.number)
        refuse_text(inputs.plan, getattr(inputs.config, "model_type", None), rows.rows, rows.where, rows.number)
    sizes = [[_size(image["bytes"]) for image in row[IMAGES]] for row in data.rows.select_columns(IMAGES)]
    every = range(len(sizes))
    most = max(every, key=lambda index: sum(wide * high for wide, high in sizes[index]))
    narrowest = max(every, key=lambda index: max((max(size) / min(size) for size in sizes[index]), default=0))
    indices = sorted({*inputs.sample, most, narrowest})
    lengths = [_with_images(inputs, data, [index]) for index in indices]
    fewest, at_most = (choose(every, key=lambda index: len(sizes[index])) for choose in (min, max))
    if len(sizes[fewest]) < len(sizes[at_most]):
        _with_images(inputs, data, [fewest, at_most])
    return indices, [tokens for tokens, _ in lengths], max(pixels for _, pixels in lengths)


def note_of_text_rows(rows: Any) -> str:
    """Returns the end of a sentence on rows with images that counts those without, "" if there are none."""
    count = len(rows_of_text(rows))
    return f"; {count} of {len(rows)} rows have none, and are trained as text" if count else ""


def _size(content: bytes) -> tuple[int, int]:
    with open_image(content) as image:
        width, height = image.size
    return width, height


def _with_images(inputs: Seen, data: Rows, indices: Sequence[int]) -> tuple[int, int]:
    """Returns the first prompt's token count including image tokens, and the number of pixel values of all."""
    prompts = [row["prompt"] for row in as_rewarded(data, indices)]
    how = {"add_generation_prompt": True, "tokenize": True, "return_dict": True, **chat_template_kwargs(inputs)}
    named = " beside row ".join(str(data.number(index)) for index in indices)
    try:
        made = inputs.processor.apply_chat_template(conversation=prompts, **how)
        ids = list(made["input_ids"][0])
    except Exception as problem:  # a processor may raise anything
        raise ValueError(f"row {named}: {type(problem).__name__}: {problem}") from problem
    if data.rows[indices[0]][IMAGES] and getattr(inputs.config, "image_token_id", None) not in (None, *ids):
        raise ValueError(f"row {named}: the chat template ignores message parts of the type image")
    return len(ids), _numbers(made.get("pixel_values", ()))


def _numbers(value: Any) -> int:
    """Returns how many numbers are in lists of arrays."""
    return sum(map(_numbers, value)) if isinstance(value, list | tuple) else math.prod(getattr(value, "shape", ()))


def token_id(tokenizer: Any, text: str) -> int | None:
    """Returns the id of a text that is one token of the vocabulary, otherwise None."""
    known_id = tokenizer.get_vocab().get(text)
    return None if known_id is None else int(known_id)


def special_tokens(tokenizer: Any) -> dict[int, str]:
    """Returns the tokens that skip_special_tokens removes: the named ones, and added ones marked as special."""
    named = dict(zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True))
    added = getattr(tokenizer, "added_tokens_decoder", {})
    return named | {int(each): str(token) for each, token in added.items() if getattr(token, "special", False)}


def word(tokenizer: Any, token: int) -> str:
    """Returns a token as text for a message."""
    return repr(tokenizer.decode([token])) if token < len(tokenizer) else f"{token} (no token)"
