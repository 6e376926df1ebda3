"""Reads the text of a recipe's file, within limits."""

import os

from grpo_recipes.contract.exits import SYSTEM_FIXES
from grpo_recipes.contract.files.regular_file import open_regular
from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.yaml import ids
from grpo_recipes.yaml.ids import refusal
from grpo_recipes.yaml.page import page_of, visible_text

SUFFIXES = (".yaml", ".yml")
MAX_BYTES = 256 * 1024
LONGEST_PATH = 300  # a fix with half a path is useless


def read_recipe(path: str) -> str | Finding:
    """The file's text without a byte order mark, or the finding why it cannot be read."""
    name = visible_text(path, LONGEST_PATH)
    if os.path.islink(path) and not os.path.realpath(path).endswith(SUFFIXES):
        # Mistakes in a recipe are printed, and a different kind of file may hold secrets.
        because = f"it leads to {visible_text(os.path.realpath(path))}"
        message = f"{name} is a link to a file that is not .yaml"
        return refusal(ids.UNREADABLE, message, None, "name a recipe", because)
    try:
        with open_regular(path) as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return refusal(ids.UNREADABLE, f"{name} does not exist", None, _nearest(path), "no file has this path")
    except (OSError, ValueError) as error:
        number, reason = (error.errno, error.strerror) if isinstance(error, OSError) else (None, str(error))
        fix = SYSTEM_FIXES.get(number, "name a recipe file")
        return refusal(ids.UNREADABLE, f"{name} cannot be read", None, fix, visible_text(str(reason)))
    if len(content) > MAX_BYTES:
        message = f"{name} is larger than {MAX_BYTES // 1024} KiB"
        return refusal(ids.TOO_LARGE, message, None, "keep data in a data file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        mark = page_of(content.decode("utf-8", "replace"), path).mark_at(len(content[: error.start].decode("utf-8")))
        message = f"the byte 0x{content[error.start]:02x} is not UTF-8"
        return refusal(ids.NOT_TEXT, message, mark, "save the file as UTF-8")


def _nearest(path: str) -> str:
    folder, name = os.path.split(path)
    try:
        is_recipe = name.endswith(SUFFIXES)
        names = [
            entry
            for entry in os.listdir(folder or ".")
            if entry.endswith(SUFFIXES) or (not is_recipe and os.path.isfile(f"{folder or '.'}/{entry}/plan.json"))
        ]
    except (OSError, ValueError):
        return "check the path"
    close = nearest_words(name, names[:1000], cutoff=0.6)
    return visible_text(os.path.join(folder, close[0]), LONGEST_PATH) if close else "check the path"
