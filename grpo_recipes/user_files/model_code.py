"""The code that a model brings: all of its folder, and the repositories whose code its configurations name."""

import json
import os
from collections.abc import Iterator

from grpo_recipes.contract.files.regular_file import read_text
from grpo_recipes.user_files.digests import MOST_FILES, TooManyFiles, file_content

CONFIGURATIONS = (
    "config.json",
    "tokenizer_config.json",
    "processor_config.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "feature_extractor_config.json",
    "generation_config.json",
)
# What git and the hub's client keep of their own.
_LEFT_OUT = (".git", ".cache")
_LARGEST_CONFIGURATION_BYTES = 16 * 1024**2


def code_files(folder: str) -> dict[str, str]:
    """The sha256 of every file of a model's folder, hidden ones, compiled ones and those behind links included.

    Code that is allowed may load any of them. Raises OSError for a file that cannot be read, or for a disk of files.
    """
    found: dict[str, str] = {}
    for path in _files(folder, set()):
        if len(found) > MOST_FILES:
            raise TooManyFiles(None, f"it holds more than {MOST_FILES:,} files", folder)
        found[os.path.relpath(path, folder)] = file_content(path).sha256
    return found


def _files(folder: str, seen: set[str]) -> Iterator[str]:
    """The files below a folder, through links to folders too, each folder once."""
    real = os.path.realpath(folder)
    if real in seen:
        return
    seen.add(real)
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.isdir(path):
            if name not in _LEFT_OUT:
                yield from _files(path, seen)
        elif os.path.isfile(path):
            yield path


def named_repositories(folder: str) -> list[str]:
    """The repositories of the hub whose code the configurations of a folder name: "owner/name--module.Class"."""
    found: dict[str, None] = {}
    for name in CONFIGURATIONS:
        try:
            content = json.loads(read_text(os.path.join(folder, name), _LARGEST_CONFIGURATION_BYTES))
        except (OSError, ValueError, RecursionError):
            continue  # loading it says what is wrong with it
        for reference in _references(content):
            found.update(dict.fromkeys([reference.partition("--")[0]] if "--" in reference else []))
    return list(found)


def _references(content: object) -> Iterator[str]:
    """The values of every auto_map and custom_pipelines, however deep: a text, or a list of texts."""
    pending = [(content, False)]
    while pending:
        value, is_named = pending.pop()
        if isinstance(value, dict):
            pending += [(one, is_named or key in ("auto_map", "custom_pipelines")) for key, one in value.items()]
        elif isinstance(value, list):
            pending += [(one, is_named) for one in value]
        elif is_named and isinstance(value, str):
            yield value
