"""Where the files of a plan are now: in the run folder, where they were, or at the same place beside the recipe."""

import copy
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from grpo_recipes.contract.plan import Data, Plan
from grpo_recipes.lock.read_lock import Lock
from grpo_recipes.trust.user_code import user_files
from grpo_recipes.user_files.digests import (
    WITH_CARDS,
    FileContent,
    FolderContent,
    data_folder_content,
    file_content,
    folder_content,
    text_content,
)

Read = Callable[[str], FileContent | FolderContent | None]
USER_FILES = os.path.join("worker", "user")


@dataclass(slots=True)
class Places:
    """values: the recipe with every local path absolute. found: part of the recipe -> its place now.

    missing: part -> where it was, for what is nowhere any more. changed: part -> the place of an original that is
    another one now, while the run folder still has the copy of the plan.
    """

    values: dict[str, Any]
    found: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    changed: dict[str, str] = field(default_factory=dict)


def found_places(lock: Lock) -> Places:
    """Every local file and folder of a plan, found again; of several places the one with the planned content."""
    plan, places = lock.plan, Places(copy.deepcopy(lock.plan.recipe))
    if plan.smoke:
        places.values.pop("evaluation", None)  # a trial has none, and its plan does not know where the rows were
    if plan.model.source == "folder":
        place = _place(places, lock, "model", plan.model.path, plan.model.sha256, folder_content)
        _put(places.values, ("model", "model_name_or_path"), place)
    if plan.ancestor is not None and os.path.isabs(plan.ancestor.named):
        place = _place(places, lock, "ancestor", plan.ancestor.named, None, folder_content)
        _put(places.values, ("model", "from_run"), place)
    template = plan.tokenizer.chat_template_path
    if template is not None:
        sha256 = plan.tokenizer.chat_template_sha256
        place = _place(places, lock, "chat template", template, sha256, text_content)
        _put(places.values, ("tokenizer", "chat_template_path"), place)
    for section, data in _data_sections(plan):
        if data.source in ("file", "folder"):
            read = file_content if data.source == "file" else data_reader(plan)
            _put(places.values, (section, "path"), _place(places, lock, section, data.path, data.sha256, read))
    for index, reward in enumerate(plan.rewards):
        if reward.kind == "model" and reward.path is not None:
            place = _place(places, lock, f"rewards.{reward.name}", reward.path, reward.sha256, folder_content)
            _put(places.values, ("rewards", index, "model"), place)
    for file in user_files(plan):
        place = _place(places, lock, file.part, file.path, file.sha256, file_content, has_copy=True)
        _put(places.values, file.key, f"{place}:{file.name}")
    return places


def data_reader(plan: Plan) -> Read:
    """What reads a data folder as the plan was made with it."""
    return data_folder_content if plan.made_by.get("digests") == WITH_CARDS else folder_content


def _data_sections(plan: Plan) -> Iterator[tuple[str, Data]]:
    yield "dataset", plan.data
    own = plan.recipe.get("evaluation")
    if plan.evaluation is not None and isinstance(own, dict) and own.get("path") is not None:
        yield "evaluation", plan.evaluation.data


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
    """The place to take a part from, noted in `places`; where it was when it is nowhere."""
    copy_place = os.path.join(lock.folder, USER_FILES, os.path.basename(path))
    originals = [one for one in dict.fromkeys(_candidates(lock, path)) if os.path.exists(one)]
    existing = ([copy_place] if has_copy and os.path.isfile(copy_place) else []) + originals
    if not existing:
        places.missing[part] = path
        return path
    chosen = existing[0]
    if sha256 is not None:
        chosen = next((one for one in existing if digest_or_none(read, one) == sha256), existing[0])
    places.found[part] = chosen
    if chosen == copy_place and originals and all(digest_or_none(read, one) != sha256 for one in originals):
        places.changed[part] = originals[0]
    return chosen


def _candidates(lock: Lock, path: str) -> Iterator[str]:
    """Where a file may be by now: where it was; as far from the run folder, or from the recipe, as it was."""
    yield path
    if lock.plan.folder is not None:
        yield os.path.normpath(os.path.join(lock.folder, os.path.relpath(path, lock.plan.folder)))
    if lock.plan.recipe_file is not None:
        below = os.path.relpath(path, os.path.dirname(lock.plan.recipe_file))
        yield from (os.path.normpath(os.path.join(base, below)) for base in (lock.folder, os.getcwd()))


def digest_or_none(read: Read, path: str) -> str | None:
    """The digest of a file or folder, None where it cannot be read."""
    try:
        content = read(path)
    except (OSError, ValueError):
        return None
    return None if content is None else content.sha256


def _put(values: Any, path: tuple[str | int, ...], value: str) -> None:
    """Sets a value of the recipe, if it has one there; a plan of another release may have it elsewhere."""
    node: Any = values
    for part in path[:-1]:
        is_there = part in node if isinstance(node, dict) else isinstance(node, list) and part in range(len(node))
        node = node[part] if is_there else None
    if isinstance(node, dict) and path[-1] in node:
        node[path[-1]] = value
