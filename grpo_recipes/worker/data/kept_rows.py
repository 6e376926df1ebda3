"""Rendered rows in the run folder, for the other processes of a machine and for a resume.

Nothing in a run folder that was received is trusted, so rows are taken only where this user signed what they were made
of and their sha256; whatever else lies there is rendered again, without a word. There are as many as sections of the
recipe times machines, and each takes the place of the one before.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
from collections.abc import Iterator
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from grpo_recipes.contract import prompt_shape
from grpo_recipes.contract.files.digest import file_sha256
from grpo_recipes.contract.files.folder_files import (
    make_folder,
    names,
    open_in_place,
    read_text,
    remove_tree,
    write_whole,
)
from grpo_recipes.contract.integrity.digests import digest_of
from grpo_recipes.contract.integrity.seal import YOU, Damaged, opened, sealed
from grpo_recipes.contract.plan import Data

FOLDER = "rendered"
ROWS = "rows.arrow"
_MANIFEST = "rows.json"
_PURPOSE = "rendered rows"
_PACKAGES = ("datasets", "jinja2", "markupsafe", "pyarrow")
_COMMIT = re.compile(r"[0-9a-f]{40}")


class Kept(NamedTuple):
    """file: the rendered rows, of datasets. seen: what the whole data showed of itself, as run.json has it."""

    file: Path
    seen: dict[str, object]


def name_of(where: str) -> str:
    """The name of a section's rows. Each machine has its own, which no other one replaces under its eyes."""
    return f"{where}-{int(os.environ.get('GROUP_RANK', '0'))}"


def decided_by(data: Data, where: str, sha256: str | None) -> str | None:
    """The digest of all that decides the rendered rows; None where nobody can say it, as of a folder of files.

    sha256: of a local file, as it is now.
    """
    if sha256 is None and not (data.source == "hub" and _COMMIT.fullmatch(data.commit or "")):
        return None
    own = sorted(Path(__file__).parent.glob("*.py"))
    decides = {
        "where": where,
        "content": sha256,
        "data": {name: value for name, value in asdict(data).items() if name != "path" or sha256 is None},
        "releases": {name: metadata.version(name) for name in _PACKAGES},
        "python": platform.python_version(),
        "code": [file_sha256(path) for path in (*own, Path(prompt_shape.__file__))],
    }
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


@contextlib.contextmanager
def one_at_a_time(cache: Path, name: str) -> Iterator[None]:
    """Makes the processes of a machine wait for each other; a file system without locks lets each go its own way."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            make_folder(cache.parent, f"{cache.name}/{FOLDER}")
            lock = open_in_place(cache, f"{FOLDER}/{name}.lock", make=True)
            stack.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def kept(cache: Path, name: str, decided: str) -> Kept | None:
    """The rows that this user rendered of the same, as they were written; None where there are none."""
    stated = _stated_by_you(cache, name)
    place = f"{FOLDER}/{name}/{ROWS}"
    try:
        if stated is None or stated["decided_by"] != decided or digest_of(cache, place).sha256 != stated["sha256"]:
            return None
        return Kept(cache / place, dict(stated["seen"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def place_for(cache: Path, name: str) -> Path:
    """Where rows are to be written, in a folder of their own that is empty. Raises OSError."""
    place = f"{cache.name}/{FOLDER}/{name}"
    remove_tree(cache.parent, place)
    make_folder(cache.parent, place)
    return cache / FOLDER / name / ROWS


def keep(cache: Path, name: str, decided: str, seen: dict[str, object]) -> None:
    """Signs the rows that lie in their place by now; those of a disk that is full are rendered again next time."""
    place = f"{FOLDER}/{name}"
    with contextlib.suppress(OSError):
        stated = {"decided_by": decided, "sha256": digest_of(cache, f"{place}/{ROWS}").sha256, "seen": seen}
        write_whole(cache, f"{place}/{_MANIFEST}", sealed(_PURPOSE, stated))


def remove_unsigned(cache: Path) -> None:
    """Removes all of the cache but what this user's rows may be. Raises OSError."""
    try:
        own = [name for name in names(cache, FOLDER) if _stated_by_you(cache, name) is not None]
    except OSError:
        own = []
    if not own:
        remove_tree(cache.parent, cache.name)
        return
    others = [name for name in names(cache) if name != FOLDER]
    others += [f"{FOLDER}/{name}" for name in names(cache, FOLDER) if name not in own]
    for name in others:
        remove_tree(cache, name)


def _stated_by_you(cache: Path, name: str) -> dict[str, Any] | None:
    try:
        found = opened(_PURPOSE, read_text(cache, f"{FOLDER}/{name}/{_MANIFEST}"))
    except (OSError, ValueError, Damaged):
        return None
    return found.content if found.signer == YOU else None
