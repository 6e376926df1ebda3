"""What the installed TRL does with rows and rewards, read from its source, since importing it takes longer than all
the rest of a preflight."""

import functools
import importlib.util
import re
from pathlib import Path

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


def drops_incomplete_generations() -> bool:
    """Whether prompts that do not fill a generation are left out of an epoch."""
    source = _source("utils.py") + _source("grpo_trainer.py")
    return re.search(r"if len\(chunk\) == self\.batch_size", source) is not None
