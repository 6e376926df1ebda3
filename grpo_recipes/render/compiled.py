"""Bytecode beside the modules of a run folder: made once for this package, where Python keeps its own, and copied.

Without it each run compiles its copy of the worker anew. Python takes bytecode by the time and size of its source, and
a copy has those of its original; a module that was changed, and a folder that lies elsewhere by now or is run by
another Python, are compiled there.
"""

import contextlib
import importlib.util
import os
import struct
import sys
from importlib.machinery import SourceFileLoader
from importlib.resources import files
from pathlib import Path

from grpo_recipes.contract.files.folder_files import make_folder, status, write_whole
from grpo_recipes.contract.files.travels import TRAVELS

_COPY = "worker/grpo_recipes"
_HEAD = struct.Struct("<4sLLL")
# What no training imports.
_NOT_TRAINING = ("export", "answering", "preflight")


def copy_compiled(folder: Path) -> None:
    """Puts the bytecode of what a training imports into a run folder whose worker this package wrote.

    Where it cannot be read or written there is none, and nothing is lost but time.
    """
    if sys.dont_write_bytecode:
        return
    package = Path(str(files("grpo_recipes")))
    for part in TRAVELS:
        with contextlib.suppress(OSError):
            for place, inside, names in os.walk(package / part):
                inside[:] = [name for name in inside if name not in ("__pycache__", *_NOT_TRAINING)]
                sources = [Path(place, name) for name in sorted(names) if name.endswith(".py")]
                _copy_room(sources, folder, f"{_COPY}/{Path(place).relative_to(package)}")


def _copy_room(sources: list[Path], folder: Path, room: str) -> None:
    if status(folder, room) is None:
        return
    target = f"{room}/__pycache__"
    make_folder(folder, target)
    for source in sources:
        compiled = Path(importlib.util.cache_from_source(str(source)))
        name = f"{target}/{compiled.name}"
        if status(folder, name) is None and (content := _bytecode(compiled, source)) is not None:
            write_whole(folder, name, content, is_lasting=False)


def _bytecode(compiled: Path, source: Path) -> bytes | None:
    """What Python keeps of a module, made now where it has none; None where it cannot be kept."""
    content = _read(compiled, source)
    place = compiled.parent if compiled.parent.exists() else source.parent
    if content is None and os.access(place, os.W_OK):
        SourceFileLoader(source.stem, str(source)).get_code(source.stem)
        content = _read(compiled, source)
    return content


def _read(compiled: Path, source: Path) -> bytes | None:
    """The bytecode, None where Python would not take it for the module as it is now."""
    try:
        content, now = compiled.read_bytes(), source.stat()
        head = _HEAD.unpack_from(content)
    except (OSError, struct.error):
        return None
    known = (importlib.util.MAGIC_NUMBER, 0, int(now.st_mtime) & 0xFFFFFFFF, now.st_size & 0xFFFFFFFF)
    return content if head == known else None
