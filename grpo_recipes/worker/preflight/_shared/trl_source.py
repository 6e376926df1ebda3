"""Reads from the source of the installed TRL how it treats rows and rewards.

Importing TRL takes longer than the whole preflight.
"""

import functools
import importlib.util
import re
from pathlib import Path

ALWAYS_PASSED = ("prompts", "completions")
# Columns of the rows that TRL does not pass on.
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
def names_from_trl() -> tuple[str, ...]:
    """Returns the names under which TRL passes values besides the columns to a reward function."""
    source = _source("grpo_trainer.py")
    names = re.findall(r'^ +reward_kwargs\["(\w+)"\] = ', source, re.MULTILINE)
    ids = ["completion_ids"] if re.search(r"completion_ids=completion_ids", source) else []
    return tuple(dict.fromkeys([*ALWAYS_PASSED, *ids, *(name for name in names if name != "environments")]))


def suppresses_images() -> bool:
    """Whether TRL suppresses the image token that the model's configuration names."""
    return "model.config.image_token_id" in _source("grpo_trainer.py")


def drops_incomplete_generations() -> bool:
    """Whether an epoch leaves out prompts that do not fill a generation."""
    source = _source("utils.py") + _source("grpo_trainer.py")
    return re.search(r"if len\(chunk\) == self\.batch_size", source) is not None
