"""Changes modules in the archive of a run folder, which its trainings import."""

import functools
import importlib._bootstrap_external
import io
import zipfile
from pathlib import Path

ARCHIVE = Path("worker", "grpo_recipes.zip")


def replace_module(run_folder: Path, name: str, text: str) -> None:
    """Writes the text of one module, such as grpo_recipes/worker/training.py, into the archive."""
    archive = run_folder / ARCHIVE
    archive.write_bytes(_with_module(archive.read_bytes(), name, text))


def add_bytecode(run_folder: Path) -> None:
    """Adds the compiled modules to the archive: without them, each process of the run compiles those it imports."""
    archive = run_folder / ARCHIVE
    archive.write_bytes(_with_bytecode(archive.read_bytes()))


def read_module(run_folder: Path, name: str) -> str:
    """The text of one module in the archive."""
    with zipfile.ZipFile(run_folder / ARCHIVE) as archive:
        return archive.read(name).decode()


# Folders of one test file have the same archive, so that it is changed once.
@functools.lru_cache(maxsize=8)
def _with_module(archive: bytes, name: str, text: str) -> bytes:
    texts = _unpacked(archive)
    assert name in texts, f"no module {name}"
    return _packed({**texts, name: text.encode(), f"{name}c": b""})


@functools.lru_cache(maxsize=8)
def _with_bytecode(archive: bytes) -> bytes:
    texts = _unpacked(archive)
    compiled = {f"{name}c": _bytecode(name, text) for name, text in texts.items() if name.endswith(".py")}
    return _packed({**texts, **compiled})


def _bytecode(name: str, source: bytes) -> bytes:
    code = compile(source, name, "exec", dont_inherit=True)
    # A kind that is not compared with its source.
    return bytes(importlib._bootstrap_external._code_to_hash_pyc(code, bytes(8), checked=False))


def _unpacked(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def _packed(texts: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in texts.items():
            if text or not name.endswith(".pyc"):
                archive.writestr(zipfile.ZipInfo(name), text)
    return content.getvalue()
