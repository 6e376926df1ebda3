"""What the files of a model say of its tokenizer: its chat template, and how answers are read."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from grpo_recipes.contract.files.regular_file import read_text
from grpo_recipes.user_files.model_config import cached_snapshot

_LARGEST_FILE_BYTES = 16 * 1024 * 1024
# Files that hold a template, or a tokenizer whose template is not in a file of transformers.
_UNREAD = ("tekken.json", "chat_template.json")


def chat_template_of(model: str, revision: str | None = None) -> str | None:
    """The chat template of a folder or of a hub id in the local cache: "" where it has none, None when not known.

    Of several named templates it is the one named default, as transformers takes it. Nothing is downloaded.
    """
    folder = _folder(model, revision)
    if folder is None or any((folder / name).exists() for name in _UNREAD):
        return None
    template = _text(folder / "chat_template.jinja")
    if template is not None:
        return template
    if (folder / "chat_template.jinja").exists() or (folder / "additional_chat_templates").exists():
        return None
    config = _config(folder)
    return None if config is None else _default(config.get("chat_template"))


def brings_along(model: str, keys: Iterable[str], revision: str | None = None) -> bool | None:
    """Whether one of these keys says something in tokenizer_config.json; None when not known."""
    folder = _folder(model, revision)
    config = None if folder is None else _config(folder)
    return None if config is None else any(config.get(key) for key in keys)


def _folder(model: str, revision: str | None) -> Path | None:
    return Path(model) if os.path.isdir(model) else cached_snapshot(model, revision) if "/" in model else None


def _config(folder: Path) -> Mapping[str, object] | None:
    text = _text(folder / "tokenizer_config.json")
    try:
        config = json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return None
    return config if isinstance(config, dict) else None


def _default(template: object) -> str | None:
    if isinstance(template, list):
        named = {str(one.get("name")): one.get("template") for one in template if isinstance(one, dict)}
        template = named.get("default")
        return template if isinstance(template, str) else None
    return template if isinstance(template, str) else "" if template is None else None


def _text(path: Path) -> str | None:
    try:
        return read_text(path, _LARGEST_FILE_BYTES)
    except (OSError, ValueError):
        return None
