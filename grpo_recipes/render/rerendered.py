"""Rewrites the scripts and code of an existing run folder, so that none of its earlier content is run."""

import os
import shutil
import stat
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.files.folder_files import remove
from grpo_recipes.contract.findings.wording import listed
from grpo_recipes.contract.host.engines import ENGINES
from grpo_recipes.contract.integrity.run_folder import known_run_id, write_integrity
from grpo_recipes.contract.integrity.seal import INTEGRITY_FILE
from grpo_recipes.contract.plan import Plan
from grpo_recipes.render.run_folder import NO_SCRIPTS, copy_worker, link_or_copy, write_texts, written_texts

_USER = os.path.join("worker", "user")
_COMPILED = "__pycache__"
_MOST_NAMES = 4


@dataclass(slots=True)
class _Writing:
    """A rewrite of a run folder. folder: the run's. new: the intended content. kept: the folder for replaced files,
    created when first needed.
    """

    folder: Path
    new: Path
    kept: Path
    replaced: list[str] = field(default_factory=list)


def write_again(
    plan: Plan, folder: str, *, as_written: Plan, told: Sequence[str], scripts: Mapping[str, str] = NO_SCRIPTS
) -> list[str]:
    """Rewrites plan.json, the scripts, the configuration and worker/ of a run folder; returns lines to print.

    The folder must be locked. Files that differed are kept in a folder replaced-<time>; user files stay, since the plan
    has their digests. Links are not followed. Each part is replaced separately, so after a kill in between this can be
    called again.
    as_written: the plan for plan.json, in which user files have their original paths.
    told: values in which plan.json differed; without any it is replaced silently. scripts: of the engine, by name.
    Raises Refusal if the folder cannot be written, or a user file differs from the planned one.
    """
    place = Path(folder)
    own_id = known_run_id(place)
    writing = _Writing(place, place / f".writing-{uuid.uuid4().hex[:12]}", _free_name(place))
    try:
        _remove_unfinished(place)
        writing.new.mkdir()
        texts = written_texts(as_written, "", scripts)
        del texts["recipe.yaml"]
        write_texts(writing.new, texts)
        copy_worker(plan, writing.new / "worker")
        remove(place, INTEGRITY_FILE)  # so a kill in between leaves no digests of missing files
        _put_worker(writing)
        for name in texts:  # including launch.sh, without which it would not be a run folder
            _put(writing, name, is_told=name != "plan.json" or bool(told))
        write_integrity(place, own_id)
    except OSError as problem:
        raise Refusal.of(
            f"{folder}: its scripts cannot be rewritten",
            because=str(problem.strerror or problem),
            fix="make the folder writable for this user, or continue in a copy of it",
        ) from None
    finally:
        shutil.rmtree(writing.new, ignore_errors=True)
    return _lines(writing, told)


def _put_worker(writing: _Writing) -> None:
    """Replaces worker/, piece by piece if it exists, so that the user's files are never missing."""
    for name in ("worker", _USER):
        new, old = writing.new / name, writing.folder / name
        if not new.exists() and name == _USER:
            return
        if not _is_folder(old):
            _put(writing, name)
            if name == "worker":
                return
            continue
        skipped = {"user", _COMPILED} if name == "worker" else set[str]()
        there = {entry.name for entry in old.iterdir()} if name == "worker" else set[str]()
        for entry in sorted((there | {entry.name for entry in new.iterdir()}) - skipped):
            _put(writing, os.path.join(name, entry))


def _put(writing: _Writing, name: str, *, is_told: bool = True) -> None:
    """Replaces one file or folder; one that is no longer needed is kept like one that differed."""
    new, old = writing.new / name, writing.folder / name
    is_there, is_needed = os.path.lexists(old), os.path.lexists(new)
    if is_there and is_needed and _is_same(new, old):
        if not _is_folder(old) or not _has_compiled(old):
            return
        is_told = False
    if is_there and is_told:
        kept = writing.kept / name
        kept.parent.mkdir(parents=True, exist_ok=True)
        writing.replaced.append(name)
        if is_needed and _is_file(old) and _is_file(new):
            link_or_copy(old, kept)
        else:
            os.rename(old, kept)
    elif is_there and not (_is_file(old) and _is_file(new)):
        os.rename(old, writing.new / f"old-{uuid.uuid4().hex[:12]}")
    if is_needed:
        os.replace(new, old)


def _is_same(new: Path, old: Path) -> bool:
    """Whether two files or folders are the same, ignoring compiled copies; a link never is."""
    if _is_folder(new):
        if not _is_folder(old):
            return False
        names = [{entry.name for entry in each.iterdir()} - {_COMPILED} for each in (new, old)]
        return names[0] == names[1] and all(_is_same(new / name, old / name) for name in names[0])
    if not _is_file(old) or old.lstat().st_size != new.lstat().st_size:
        return False
    return new.read_bytes() == old.read_bytes()


def _has_compiled(folder: Path) -> bool:
    """Whether Python would run a compiled copy of something in it."""
    return any(_COMPILED in folders for _, folders, _ in os.walk(folder))


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_file(path: Path) -> bool:
    return os.path.lexists(path) and stat.S_ISREG(path.lstat().st_mode)


def _free_name(folder: Path) -> Path:
    name = f"replaced-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    names = [name, *(f"{name}-{count}" for count in range(2, 1000))]
    return next(folder / one for one in names if not os.path.lexists(folder / one))


def _remove_unfinished(folder: Path) -> None:
    """Removes files that a killed process wrote and did not put in place."""
    for left in folder.glob(".writing-*"):
        if _is_folder(left):
            shutil.rmtree(left, ignore_errors=True)


def _lines(writing: _Writing, told: Sequence[str]) -> list[str]:
    if not writing.replaced:
        return []
    changed = listed(told, _MOST_NAMES)
    names = [f"{name} ({changed})" if name == "plan.json" else name for name in writing.replaced]
    text = f"rewritten, since this grpo-run writes it differently: {listed(names, _MOST_NAMES)}\n"
    text += f"  the old files are in {writing.kept}"
    if {"launch.sh", "train.sh", *(name for kind in ENGINES.values() for name in kind.scripts)} & set(writing.replaced):
        text += "; start your own script by hand: bash SCRIPT --resume"
    return [text]
