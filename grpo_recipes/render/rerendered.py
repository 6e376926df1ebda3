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
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.contract.host.engines import ENGINES
from grpo_recipes.contract.integrity.run_folder import run_id_to_keep, write_integrity
from grpo_recipes.contract.integrity.run_id import INTEGRITY_FILE
from grpo_recipes.contract.plan import Plan
from grpo_recipes.render.run_folder import NO_SCRIPTS, copy_worker, link_or_copy, texts_of_plan, write_texts

_USER = os.path.join("worker", "user")
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
    plan: Plan, folder: str, *, as_written: Plan, changes: Sequence[str], scripts: Mapping[str, str] = NO_SCRIPTS
) -> list[str]:
    """Rewrites plan.json, the scripts, the configuration and worker/ of a run folder; returns lines to print.

    The folder must be locked. Files that differed are kept in a folder replaced-<time>; user files stay, since the plan
    has their digests. Links are not followed. Each part is replaced separately, so after a kill in between this can be
    called again.
    as_written: the plan for plan.json, in which user files have their original paths.
    changes: values in which plan.json differed; without any it is replaced silently. scripts: of the engine, by name.
    Raises Refusal if the folder cannot be written, or a user file differs from the planned one.
    """
    path = Path(folder)
    own_id = run_id_to_keep(path)
    writing = _Writing(path, path / f".writing-{uuid.uuid4().hex[:12]}", _free_name(path))
    try:
        _remove_unfinished(path)
        writing.new.mkdir()
        texts = texts_of_plan(as_written, "", scripts)
        del texts["recipe.yaml"]
        write_texts(writing.new, texts)
        copy_worker(plan, writing.new / "worker")
        remove(path, INTEGRITY_FILE)  # so a kill in between leaves no digests of missing files
        _put_worker(writing)
        for name in texts:  # including launch.sh, without which it would not be a run folder
            _put(writing, name, is_told=name != "plan.json" or bool(changes))
        write_integrity(path, own_id)
    except OSError as problem:
        raise Refusal.of(
            f"{folder}: its scripts cannot be rewritten",
            because=str(problem.strerror or problem),
            fix="make the folder writable for this user, or continue in a copy of it",
        ) from None
    finally:
        shutil.rmtree(writing.new, ignore_errors=True)
    return _lines(writing, changes)


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
        there = {entry.name for entry in old.iterdir()} if name == "worker" else set[str]()
        for entry in sorted((there | {entry.name for entry in new.iterdir()}) - {"user"}):
            _put(writing, os.path.join(name, entry))


def _put(writing: _Writing, name: str, *, is_told: bool = True) -> None:
    """Replaces one file or folder; one that is no longer needed is kept like one that differed."""
    new, old = writing.new / name, writing.folder / name
    is_there, is_needed = os.path.lexists(old), os.path.lexists(new)
    if is_there and is_needed and _is_same(new, old):
        return
    if is_there and is_told:
        backup = writing.kept / name
        backup.parent.mkdir(parents=True, exist_ok=True)
        writing.replaced.append(name)
        if is_needed and _is_file(old) and _is_file(new):
            link_or_copy(old, backup)
        else:
            os.rename(old, backup)
    elif is_there and not (_is_file(old) and _is_file(new)):
        os.rename(old, writing.new / f"old-{uuid.uuid4().hex[:12]}")
    if is_needed:
        os.replace(new, old)


def _is_same(new: Path, old: Path) -> bool:
    """Whether two files are the same; a link never is, nor is a folder."""
    are_files = _is_file(new) and _is_file(old)
    return are_files and old.lstat().st_size == new.lstat().st_size and new.read_bytes() == old.read_bytes()


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_file(path: Path) -> bool:
    return os.path.lexists(path) and stat.S_ISREG(path.lstat().st_mode)


def _free_name(folder: Path) -> Path:
    name = f"replaced-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    names = [name, *(f"{name}-{count}" for count in range(2, 1000))]
    return next(folder / candidate for candidate in names if not os.path.lexists(folder / candidate))


def _remove_unfinished(folder: Path) -> None:
    """Removes files that a killed process wrote and did not put in place."""
    for left in folder.glob(".writing-*"):
        if _is_folder(left):
            shutil.rmtree(left, ignore_errors=True)


def _lines(writing: _Writing, changes: Sequence[str]) -> list[str]:
    if not writing.replaced:
        return []
    changed = join_items(changes, _MOST_NAMES)
    names = [f"{name} ({changed})" if name == "plan.json" else name for name in writing.replaced]
    text = f"rewritten, since this grpo-run writes it differently: {join_items(names, _MOST_NAMES)}\n"
    text += f"  the old files are in {writing.kept}"
    if {"launch.sh", "train.sh", *(name for kind in ENGINES.values() for name in kind.scripts)} & set(writing.replaced):
        text += "; start your own script by hand: bash SCRIPT --resume"
    return [text]
