"""Prompts as TRL gives them to the tokenizer."""

import functools
import hashlib
import importlib.util
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grpo_recipes.worker._shared.inputs import IMAGES, decoded, shown_with
from grpo_recipes.worker.data.dataset import prompts_of
from grpo_recipes.worker.data.images import refuse_written_tokens
from grpo_recipes.worker.data.unreadable_rows import TooMuch, bounded
from grpo_recipes.worker.preflight._shared.seen import Rows, Seen, chat_template_kwargs, is_conversational


def rendered_text(seen: Seen, prompt: Any, *, opened: bool = True) -> str:
    """A prompt as the text that the model continues, "" for none; opened: with the beginning of the answer."""
    if not is_conversational(prompt):
        return str(prompt or "")
    keywords = {"tokenize": False, "add_generation_prompt": opened, **_with_tools(seen), **chat_template_kwargs(seen)}
    try:
        with bounded():
            return str(seen.tokenizer.apply_chat_template(prompt, **keywords))
    except TooMuch as problem:
        raise RuntimeError(str(problem)) from None


def tokens_of(seen: Seen, prompt: Any) -> list[int]:
    """The token ids of a prompt. A rendered conversation has its special tokens already, a plain text gets them."""
    is_messages = is_conversational(prompt)
    text = rendered_text(seen, prompt)
    found: list[int] = seen.tokenizer(text, add_special_tokens=not is_messages)["input_ids"]
    return found


def played_ids(seen: Seen, prompt: Any, completion: list[dict[str, Any]]) -> list[int]:
    """The token ids of a completion of several messages behind its prompt, as the template writes them; [] if not."""
    if seen.tokenizer is None or seen.template_problem:
        return []
    try:
        before = rendered_text(seen, prompt)
        text = rendered_text(seen, [*prompt, *completion], opened=False)
    except Exception:  # a template that takes no such conversation whole: TRL renders replies by themselves
        return []
    found: list[int] = seen.tokenizer(text[len(before) :], add_special_tokens=False)["input_ids"]
    return found


def _with_tools(seen: Seen) -> dict[str, Any]:
    """What TRL passes to the template where there are tools."""
    if seen.tools is None:
        return {}
    own = {} if seen.template is None else {"chat_template": seen.template}
    return {"tools": seen.tools.schemas or None, **own}


# Prompts of rows with images.


def prompts_seen(rows: Any) -> list[Any]:
    """The prompts of rows, with a digest in the place of each image, by which they are compared."""
    if IMAGES not in rows.column_names:
        return list(prompts_of(rows))
    return [
        shown_with(row["prompt"], [hashlib.sha256(image["bytes"]).hexdigest()[:12] for image in row[IMAGES]])
        for row in rows.select_columns(["prompt", IMAGES])
    ]


def as_rewarded(rows: Rows, places: Sequence[int]) -> list[dict[str, Any]]:
    """Rows as rewards get them, with their images."""
    found = [decoded(rows.rows[place]) for place in places]
    return [{**row, "prompt": shown_with(row["prompt"], row.get(IMAGES))} for row in found]


def measured_with_images(seen: Seen, data: Rows) -> tuple[list[int], list[int]]:
    """Places of prompts, and how many tokens each has with those that its images become.

    They are those of the sample, and the rows with most pixels and with the narrowest image. Raises Refused for a token
    of an image in a text, and ValueError with the row for what the processor refuses.
    """
    for rows in (data, *seen.held_out):
        refuse_written_tokens(seen.processor, [rows.rows], rows.where, rows.number)
    sizes = [[_size(image["bytes"]) for image in row[IMAGES]] for row in data.rows.select_columns(IMAGES)]
    every = range(len(sizes))
    most = max(every, key=lambda place: sum(wide * high for wide, high in sizes[place]))
    narrowest = max(every, key=lambda place: max(max(size) / min(size) for size in sizes[place]))
    places = sorted({*seen.sample, most, narrowest})
    lengths = [_with_images(seen, data, [place]) for place in places]
    fewest, at_most = (choose(every, key=lambda place: len(sizes[place])) for choose in (min, max))
    if len(sizes[fewest]) < len(sizes[at_most]):
        _with_images(seen, data, [fewest, at_most])
    return places, lengths


def _size(content: bytes) -> tuple[int, int]:
    from PIL import Image

    with Image.open(io.BytesIO(content)) as image:
        width, height = image.size
    return width, height


def _with_images(seen: Seen, data: Rows, places: Sequence[int]) -> int:
    """The tokens of the first of these prompts, with those that its images become."""
    prompts = [row["prompt"] for row in as_rewarded(data, places)]
    how = {"add_generation_prompt": True, "tokenize": True, "return_dict": True, **chat_template_kwargs(seen)}
    named = " beside row ".join(str(data.number(place)) for place in places)
    try:
        found = list(seen.processor.apply_chat_template(conversation=prompts, **how)["input_ids"][0])
    except Exception as problem:  # a processor raises whatever it raises
        raise ValueError(f"row {named}: {type(problem).__name__}: {problem}") from problem
    if getattr(seen.config, "image_token_id", None) not in (None, *found):
        raise ValueError(f"row {named}: the chat template writes nothing for a part of the type image")
    return len(found)


# Questions to a tokenizer about single tokens.


def token_id(tokenizer: Any, text: str) -> int | None:
    """The id of a text that is one token of the vocabulary, None where it is none."""
    found = tokenizer.get_vocab().get(text)
    return None if found is None else int(found)


def special_tokens(tokenizer: Any) -> dict[int, str]:
    """Tokens that decoding without special tokens leaves out: the named ones, and added ones that are marked so."""
    found = dict(zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True))
    added = getattr(tokenizer, "added_tokens_decoder", {})
    return found | {int(each): str(token) for each, token in added.items() if getattr(token, "special", False)}


def word(tokenizer: Any, token: int) -> str:
    """A token in a message."""
    return repr(tokenizer.decode([token])) if token < len(tokenizer) else f"{token} (no token)"


# What the installed TRL does with rows and rewards, read from its source, since importing it takes longer than all
# the rest of a preflight.


ALWAYS_PASSED = ("prompts", "completions")
# Columns of the rows that TRL keeps to itself.
KEPT_COLUMNS = ("prompt", "completion", "completion_ids")


@functools.cache
def _source(file: str) -> str:
    package = importlib.util.find_spec("trl")
    for folder in (package.submodule_search_locations or []) if package is not None else []:
        path = Path(folder, "trainer", file)
        if path.is_file():
            return path.read_text(encoding="utf-8")
    return ""


@functools.cache
def passed_names() -> tuple[str, ...]:
    """What a reward function is called with beside the columns, in TRL's own names."""
    source = _source("grpo_trainer.py")
    names = re.findall(r'^ +reward_kwargs\["(\w+)"\] = ', source, re.MULTILINE)
    ids = ["completion_ids"] if re.search(r"completion_ids=completion_ids", source) else []
    return tuple(dict.fromkeys([*ALWAYS_PASSED, *ids, *(name for name in names if name != "environments")]))


def suppresses_images() -> bool:
    """Whether TRL asks the model's configuration for the token of an image, which it suppresses."""
    return "model.config.image_token_id" in _source("grpo_trainer.py")


def drops_incomplete_generations() -> bool:
    """Whether prompts that do not fill a generation are left out of an epoch."""
    source = _source("utils.py") + _source("grpo_trainer.py")
    return re.search(r"if len\(chunk\) == self\.batch_size", source) is not None
