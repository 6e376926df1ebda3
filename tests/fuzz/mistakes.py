"""Slips of a person who writes a recipe: mistyped and misplaced keys, quotes, other programs' names, wrong values."""

import copy
import random
from collections.abc import Callable
from typing import Any

Values = dict[str, Any]
# Names of other programs, and of older releases.
FOREIGN: tuple[tuple[str, object], ...] = (
    ("peft", {"r": 8}),
    ("peft", {"lora_r": 8}),
    ("quantization_config", {"load_in_4bit": True}),
    ("rl", "grpo"),
    ("lr", 2e-6),
    ("max_new_tokens", 64),
    ("stop_words", ["</a>"]),
    ("early_stopping_patience", 3),
    ("base_model", "owner/other"),
    ("torch_dtype", "bfloat16"),
    ("gradient_accumulation_steps", 4),
    ("per_device_train_batch_size", 6),
    ("max_prompt_length", 99),
    ("dataset_name", "owner/rows"),
    ("num_epochs", 2),
    ("kl_coef", 0.02),
    ("optim", "AdamW"),
    ("seeds", 7),
)
VALUES: tuple[object, ...] = (-1, 0, 3, 7, "auto", "AdamW", "flash_attn", "yes", "True", None, [], "dapoo", 1e-3, 2.0)


def _sections(values: Values) -> list[Values]:
    return [values, *(section for section in values.values() if isinstance(section, dict) and section)]


def _key(values: Values, draw: random.Random) -> tuple[Values, str]:
    section = draw.choice(_sections(values))
    return section, draw.choice(list(section))


def _mistyped(values: Values, draw: random.Random) -> None:
    section, key = _key(values, draw)
    place = draw.randrange(len(key))
    other = draw.choice([key[:place] + key[place + 1 :], key[:place] + "x" + key[place:], key.title(), f"{key}s"])
    section[other] = section[key] if draw.random() < 0.2 else section.pop(key)


def _misplaced(values: Values, draw: random.Random) -> None:
    section, key = _key(values, draw)
    draw.choice(_sections(values))[key] = section.pop(key)


def _quoted(values: Values, draw: random.Random) -> None:
    section, key = _key(values, draw)
    if not isinstance(section[key], dict | list):
        section[key] = str(section[key])


def _wrapped(values: Values, draw: random.Random) -> None:
    section, key = _key(values, draw)
    value = section[key]
    section[key] = value[0] if isinstance(value, list) and value else [value]


def _foreign(values: Values, draw: random.Random) -> None:
    name, value = draw.choice(FOREIGN)
    sections = [values[key] for key in ("training", "grpo", "trl") if isinstance(values.get(key), dict)]
    section = draw.choice([values, *(section for section in sections if section)])
    section[name] = copy.deepcopy(value)


def _wrong(values: Values, draw: random.Random) -> None:
    section, key = _key(values, draw)
    section[key] = copy.deepcopy(draw.choice(VALUES))


def _forgotten(values: Values, draw: random.Random) -> None:
    section, key = _key(values, draw)
    del section[key]


SLIPS: tuple[Callable[[Values, random.Random], None], ...] = (
    *(_mistyped, _mistyped, _misplaced, _misplaced, _quoted, _wrapped, _foreign, _foreign, _wrong, _wrong, _forgotten),
)


def mistaken(recipe: Values, draw: random.Random) -> Values:
    """A copy of a recipe with one to four slips in it."""
    values = copy.deepcopy(recipe)
    for _ in range(draw.choice([1, 1, 2, 2, 3, 4])):
        draw.choice(SLIPS)(values, draw)
    return values
