"""Reads a plan.json and the run that it belongs to."""

import copy
import os
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.files.regular_file import read_text
from grpo_recipes.contract.integrity.run_folder import (
    PLAN_FILE,
    RECORD_FILE,
    is_lost,
    plan_fault,
    record_fault,
)
from grpo_recipes.contract.integrity.run_id import INTEGRITY_FILE
from grpo_recipes.contract.integrity.used_run import check_used_run, how_to_mend
from grpo_recipes.contract.plan import Data, Plan
from grpo_recipes.contract.read_plan import from_json
from grpo_recipes.contract.run_record import RunRecord, read_record
from grpo_recipes.stack.stack import from_json_value
from grpo_recipes.trust.user_code import user_files
from grpo_recipes.user_files.digests import (
    FileContent,
    FolderContent,
    data_folder_content,
    file_content,
    folder_content,
    text_content,
)

LARGEST_PLAN_BYTES = 32 * 1024**2
MOST_VALUES = 500_000
"""Values in a plan; one for a model of 100,000 files has 200,000. Each takes a hundred times its text in memory."""


@dataclass(frozen=True, slots=True)
class Lock:
    """A plan and its run. path: of the plan, absolute. folder: of the plan. record: of the run in that folder, None
    without one.

    is_run_folder: the folder has everything else a run needs, including its copies of reward files.
    """

    plan: Plan
    path: str
    folder: str
    record: RunRecord | None
    is_run_folder: bool

    @property
    def verified(self) -> dict[str, object]:
        """The values that the run's worker found and has to find again; else those that the plan itself requires."""
        of_record = None if self.record is None else self.record.verified
        return {**self.plan.verified, **(of_record if isinstance(of_record, dict) else {})}


def read_lock(folder_or_file: str) -> Lock:
    """The plan of a run folder, or of a file. Raises Refusal for anything but a plan of this release."""
    path = os.path.join(folder_or_file, PLAN_FILE) if os.path.isdir(folder_or_file) else folder_or_file
    try:
        text = read_text(path, LARGEST_PLAN_BYTES)
        if text.count(",") > MOST_VALUES or text.count("{") + text.count("[") > MOST_VALUES // 5:
            raise ValueError(f"it has more than {MOST_VALUES:,} values")
        plan = from_json(text)
        from_json_value(plan.stack)
    except OSError as error:
        if path == folder_or_file:
            raise Refusal.of(
                f"{path} cannot be read",
                because=str(error.strerror or error),
                fix=f"name a recipe, a run folder or its {PLAN_FILE}",
            ) from None
        raise Refusal.of(
            f"{folder_or_file} is not a run folder",
            because=f"{PLAN_FILE}: {error.strerror or error}",
            fix=f"{folder_or_file}.yaml, if you meant that"
            if os.path.isfile(f"{folder_or_file}.yaml")
            else "name a recipe, or the folder of a run; without --out they are in runs/",
        ) from None
    except (ValueError, RecursionError) as error:
        raise Refusal.of(
            f"{path} is not a plan of this release", because=str(error).splitlines()[0], fix=_fix(path)
        ) from None
    folder = os.path.dirname(os.path.abspath(path))
    is_run_folder = os.path.isfile(os.path.join(folder, "launch.sh"))
    return Lock(plan, os.path.abspath(path), folder, read_record(folder) if is_run_folder else None, is_run_folder)


def _fix(path: str) -> str:
    """How to get a plan again: its run folder has the recipe."""
    recipe = os.path.join(os.path.dirname(path), "recipe.yaml")
    again = f", or plan again: grpo-run {shlex.quote(recipe)} --out FOLDER" if os.path.isfile(recipe) else ""
    return f"restore it from a copy{again}"


def refuse_changed(lock: Lock) -> list[str]:
    """Warnings about a run folder. Raises Refusal for a changed plan.json."""
    folder = Path(lock.folder)
    if not lock.is_run_folder or os.path.basename(lock.path) != PLAN_FILE:
        return []
    because = plan_fault(folder)
    if because is not None:
        again = f"grpo-run {shlex.quote(f'{folder}/recipe.yaml')} --out FOLDER"
        raise Refusal.of(
            f"{lock.path}: the plan was changed after it was written",
            because=because,
            fix=f"restore it from a copy, or plan again: {again}; to change the plan, edit recipe.yaml",
        )
    warnings = []
    if is_lost(folder):
        warnings.append(f"{INTEGRITY_FILE} is missing, so it is unknown whether {PLAN_FILE} was changed")
    elif not (folder / INTEGRITY_FILE).exists():
        warnings.append(_words_of_old(lock))
    record = record_fault(folder)
    if record is not None:
        warnings.append(f"{RECORD_FILE} differs from what grpo-run wrote: {record}")
    return warnings


def refuse_damaged(lock: Lock, weights: str | None, *, own_model: str | None = None) -> list[str]:
    """Warnings about a run whose weights are used. Raises Refusal for a file that differs from what the run wrote.

    weights, own_model: as for check_used_run; all of their files are read.
    """
    used = check_used_run(Path(lock.folder), weights, own_model=own_model)
    if used.fault is not None:
        is_rebuilt = own_model is not None and used.fault.name.startswith(f"{own_model}/")
        raise Refusal.of(
            f"{lock.folder}: {used.fault.words}",
            because=f"it {used.fault.because}",
            fix=f"remove {own_model}; the run builds it again" if is_rebuilt else how_to_mend(used.fault),
        )
    return [_words_of_old(lock)] if used.is_old else []


def _words_of_old(lock: Lock) -> str:
    return f"{lock.folder} has no content hashes, since an older grpo-run wrote it: some damage would go unnoticed"


Read = Callable[[str], FileContent | FolderContent | None]
USER_FILES = os.path.join("worker", "user")


@dataclass(slots=True)
class Places:
    """The present files of a plan. values: the recipe with every local path absolute. found: part of the recipe -> its
    present path.

    missing: part -> its old path, if it exists nowhere. changed: part -> the path of an original that has changed,
    while the run folder still has the planned copy.
    """

    values: dict[str, Any]
    found: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    changed: dict[str, str] = field(default_factory=dict)


def find_places(lock: Lock) -> Places:
    """Every local file and folder of a plan, found again; of several candidates the one with the planned content."""
    plan, places = lock.plan, Places(copy.deepcopy(lock.plan.recipe))
    if plan.smoke:
        places.values.pop("evaluation", None)  # a trial has none, and its plan does not know where the rows were
    if plan.model.source == "folder":
        path = _place(places, lock, "model", plan.model.path, plan.model.sha256, folder_content)
        _put(places.values, ("model", "model_name_or_path"), path)
    if plan.ancestor is not None and os.path.isabs(plan.ancestor.named):
        path = _place(places, lock, "ancestor", plan.ancestor.named, None, folder_content)
        _put(places.values, ("model", "from_run"), path)
    template = plan.tokenizer.chat_template_path
    if template is not None:
        sha256 = plan.tokenizer.chat_template_sha256
        path = _place(places, lock, "chat template", template, sha256, text_content)
        _put(places.values, ("tokenizer", "chat_template_path"), path)
    for section, key, data in _data_sections(plan):
        if data.source in ("file", "folder"):
            read = file_content if data.source == "file" else data_folder_content
            _put(places.values, (*key, "path"), _place(places, lock, section, data.path, data.sha256, read))
    for index, reward in enumerate(plan.rewards):
        if reward.kind == "model" and reward.path is not None:
            path = _place(places, lock, f"rewards.{reward.name}", reward.path, reward.sha256, folder_content)
            _put(places.values, ("rewards", index, "model"), path)
    for file in user_files(plan):
        path = _place(places, lock, file.part, file.path, file.sha256, file_content, has_copy=True)
        _put(places.values, file.key, f"{path}:{file.name}")
    return places


def _data_sections(plan: Plan) -> Iterator[tuple[str, tuple[str | int, ...], Data]]:
    for index, (section, data) in enumerate(plan.training_data.items()):
        yield section, ("datasets", index) if plan.sources else ("dataset",), data
    for part in () if plan.evaluation is None else plan.evaluation.sets:
        own: Any = plan.recipe
        for key in part.section.split("."):
            own = own.get(key) if isinstance(own, dict) else None
        if isinstance(own, dict) and own.get("path") is not None:
            yield part.section, tuple(part.section.split(".")), part.data


def _place(
    places: Places,
    lock: Lock,
    part: str,
    path: str,
    sha256: str | None,
    read: Read,
    *,
    has_copy: bool = False,
) -> str:
    """The path to use for a part, recorded in `places`; its old path if it is missing."""
    copy_place = os.path.join(lock.folder, USER_FILES, os.path.basename(path))
    originals = [file for file in dict.fromkeys(_candidates(lock, path)) if os.path.exists(file)]
    existing = ([copy_place] if has_copy and os.path.isfile(copy_place) else []) + originals
    if not existing:
        places.missing[part] = path
        return path
    chosen = existing[0]
    if sha256 is not None:
        chosen = next((candidate for candidate in existing if digest_or_none(read, candidate) == sha256), existing[0])
    places.found[part] = chosen
    if chosen == copy_place and originals and all(digest_or_none(read, original) != sha256 for original in originals):
        places.changed[part] = originals[0]
    return chosen


def _candidates(lock: Lock, path: str) -> Iterator[str]:
    """The possible paths of a file: the old one, and the same relative to the run folder or to the recipe."""
    yield path
    if lock.plan.folder is not None:
        yield os.path.normpath(os.path.join(lock.folder, os.path.relpath(path, lock.plan.folder)))
    if lock.plan.recipe_file is not None:
        below = os.path.relpath(path, os.path.dirname(lock.plan.recipe_file))
        yield from (os.path.normpath(os.path.join(base, below)) for base in (lock.folder, os.getcwd()))


def digest_or_none(read: Read, path: str) -> str | None:
    """The digest of a file or folder, None if it cannot be read."""
    try:
        content = read(path)
    except (OSError, ValueError):
        return None
    return None if content is None else content.sha256


def _put(values: Any, path: tuple[str | int, ...], value: str) -> None:
    """Sets a value of the recipe, if the path exists; a plan of a different release may have it elsewhere."""
    node: Any = values
    for part in path[:-1]:
        is_there = part in node if isinstance(node, dict) else isinstance(node, list) and part in range(len(node))
        node = node[part] if is_there else None
    if isinstance(node, dict) and path[-1] in node:
        node[path[-1]] = value
