"""What `datasets` reads of a data folder's README.md: its front matter, and the files that this names elsewhere."""

import glob
import hashlib
import os
from collections.abc import Iterator
from itertools import islice

from grpo_recipes.contract.files.digest import files_sha256
from grpo_recipes.contract.files.regular_file import read_text
from grpo_recipes.user_files.digests import FolderContent, bytes_to_read, file_content, folder_content

CARD = "README.md"
WITH_CARDS = "2"
"""How a plan says that the digests of its data folders are these; those of one that says nothing leave cards out."""
MOST_OUTSIDE = 10_000
_LARGEST_CARD_BYTES = 1 << 20
_READ_KEYS = ("configs", "dataset_info")


def data_folder_content(folder: str, *, most_bytes: int | None = None) -> FolderContent | None:
    """The content of a data folder as `folder_content` has it, with what its card has `datasets` read.

    A card that says nothing about data changes nothing. Files outside the folder, and those in it that are hidden or
    behind a link to a folder, count where the card names them. Raises OSError if a file cannot be read.
    """
    content = folder_content(folder, most_bytes=most_bytes)
    matter = front_matter(folder)
    if content is None or not matter:
        return content
    files = dict(content.files)
    files[f"{CARD} (front matter)"] = hashlib.sha256(matter.encode("utf-8", "surrogateescape")).hexdigest()
    others = [path for path in _named(folder, matter) if os.path.relpath(path, folder) not in files]
    if most_bytes is not None and sum(map(bytes_to_read, others)) > most_bytes:
        return None
    files |= {os.path.relpath(path, folder): file_content(path).sha256 for path in others}
    if files == content.files:
        return content
    return FolderContent(files_sha256(sorted(files.items()), errors="surrogateescape"), files)


def front_matter(folder: str) -> str:
    """The YAML between the first two lines of dashes, "" where it says nothing about data or is none."""
    try:
        lines = read_text(os.path.join(folder, CARD), _LARGEST_CARD_BYTES).splitlines()
    except (OSError, ValueError):
        return ""
    if not lines or lines[0].strip() != "---" or "---" not in (rest := [line.strip() for line in lines[1:]]):
        return ""
    text = "\n".join(lines[1 : rest.index("---") + 1])
    return text if any(line.startswith(_READ_KEYS) for line in text.splitlines()) else ""


def _named(folder: str, matter: str) -> list[str]:
    """The files of this machine that the card's data_files name."""
    import yaml

    try:
        content = yaml.load(matter, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError):
        return []  # datasets cannot read it either
    found: dict[str, None] = {}
    for base, pattern in _patterns(content):
        if "://" not in pattern:
            matches = glob.iglob(os.path.join(folder, base, pattern), recursive=True, include_hidden=True)
            found.update(dict.fromkeys(islice(matches, MOST_OUTSIDE)))
    return sorted(path for path in found if os.path.isfile(path))


def _patterns(content: object) -> Iterator[tuple[str, str]]:
    """data_dir, "" without one, and each pattern of data_files: texts, lists of them, by split, with a path."""
    configs = content.get("configs") if isinstance(content, dict) else None
    for config in configs if isinstance(configs, list) else []:
        if not isinstance(config, dict):
            continue
        base = config.get("data_dir")
        pending = [config.get("data_files", "**" if isinstance(base, str) else None)]
        while pending:
            value = pending.pop()
            if isinstance(value, str):
                yield base if isinstance(base, str) else "", value
            elif isinstance(value, dict):
                pending += [one for key, one in value.items() if key != "split"]
            elif isinstance(value, list):
                pending += value
