"""Names of the run folders of a sweep: the values of a run, in letters that need no quotes anywhere."""

import hashlib
import re
from collections.abc import Sequence

from grpo_recipes.sweep.varied import Trial

SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")
_UNSAFE = re.compile(r"[^A-Za-z0-9._+]+")
_LONGEST = 100
_SHORT = 4
"""Letters of a last part, such as r or beta, that do not say which key it is."""


def headings(keys: Sequence[str]) -> dict[str, str]:
    """The last part of each key, or all of it where the last part does not say which key it is."""
    last = [key.rpartition(".")[2] for key in keys]
    return {
        key: end if last.count(end) == 1 and len(end) > _SHORT else key for key, end in zip(keys, last, strict=True)
    }


def setting_text(trial: Trial) -> str:
    """A setting as a person reads it: "learning_rate=1e-5 lora.r=8"."""
    named = headings([key for key, _ in trial])
    return " ".join(f"{named[key]}={text}" for key, text in trial) or "as it stands"


def run_names(runs: Sequence[tuple[Trial, int]]) -> list[str]:
    """A name for each run, by its setting and its seed, in their order; no two are alike, also without their case."""
    names: list[str] = []
    taken: set[str] = set()
    for trial, seed in runs:
        named = headings([key for key, _ in trial])
        whole = "-".join([*(f"{named[key]}-{text}" for key, text in trial), f"seed-{seed}"])
        name = _UNSAFE.sub("-", whole).strip("-.+_")
        if len(name) > _LONGEST or name.lower() in taken:
            name = f"{name[:_LONGEST].rstrip('-.+_')}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
        taken.add(name.lower())
        names.append(name)
    return names
