"""Finds the file that `extends` names: a recipe next to this one, in a folder of presets, or a shipped one.

Shipped recipes are in recipes/ of a checkout, or installed next to the package's data. Most are in the folder
catalogue, and extend the few files of its folder bases.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import grpo_recipes
from grpo_recipes.contract.findings.finding import Finding, Mark
from grpo_recipes.contract.findings.wording import join_items, nearest_words
from grpo_recipes.yaml import ids
from grpo_recipes.yaml.files import SUFFIXES
from grpo_recipes.yaml.ids import refusal
from grpo_recipes.yaml.page import visible_text

ANCHOR = "quickstart.yaml"
DISTRIBUTION = "grpo-recipes"
PREFIX = f"{DISTRIBUTION}:"
CATALOGUE = "catalogue"
BASES = "bases"
KEY = ("extends",)
MAX_PARENTS = 8
MOST_NAMES = 20


class Place(NamedTuple):
    """The path of a recipe. name: its name in marks and messages, its path or "grpo-recipes:NAME"."""

    name: str
    path: str


def parent_place(chain: Sequence[Place], written: object, mark: Mark) -> Place | Finding:
    """The file that the `extends` of a chain's last recipe names, or why it cannot be used. chain: nearest first."""
    parent = _place(chain[-1], written, mark)
    return parent if isinstance(parent, Finding) else _chain_finding(parent, chain, mark) or parent


def _place(child: Place, written: object, mark: Mark) -> Place | Finding:
    """A path is relative to the child and may leave out .yaml.

    Only YAML files are read, even through a link: content of a recipe is printed, and any other file may hold secrets.
    """
    if not isinstance(written, str) or not written or "\0" in written:
        because = "it takes the path of one file, or grpo-recipes:NAME"
        message = "extends does not name a file"
        return refusal(ids.EXTENDS_VALUE, message, mark, "extends: base.yaml", because, KEY)
    if written.startswith(PREFIX):
        return _find_shipped(written, mark)
    name, path = (os.path.join(os.path.dirname(file), written) for file in child)
    for suffix in ("",) if written.endswith(SUFFIXES) else SUFFIXES:
        file = Place(name + suffix, path + suffix)
        if os.path.isdir(file.path) or (os.path.realpath(file.path).endswith(SUFFIXES) and os.path.exists(file.path)):
            return _with_shipped_name(file, child)
        if os.path.exists(file.path):
            message = f"{visible_text(file.name, 80)} is a link to a file that is not .yaml"
            return refusal(ids.EXTENDS_VALUE, message, mark, "put the recipe itself there", path=KEY)
    return Place(name, path) if os.path.isdir(path) else _missing(written, Place(name, path), child, mark)


def _chain_finding(parent: Place, chain: Sequence[Place], mark: Mark) -> Finding | None:
    """Why a chain cannot have one more parent: a cycle, or too many."""
    real = os.path.realpath(parent.path)
    paths = [os.path.realpath(link.path) for link in chain]
    if real in paths:
        names = [link.name for link in chain[paths.index(real) :]]
        circle = " -> ".join(visible_text(os.path.basename(name), 20) for name in [*names[:4], names[0]])
        message = "the files extend each other in a circle" if len(names) > 1 else "the file extends itself"
        fix = "remove one extends of the circle"
        return refusal(ids.EXTENDS_CYCLE, message, mark, fix, f"the circle is {circle}", KEY)
    if len(chain) > MAX_PARENTS:
        message = f"more than {MAX_PARENTS} files are chained by extends"
        because = f"{visible_text(chain[0].name)} reaches this file after {MAX_PARENTS} others"
        return refusal(ids.EXTENDS_TOO_DEEP, message, mark, "put some of them into one file", because, KEY)
    return None


def _with_shipped_name(parent: Place, child: Place) -> Place:
    """A recipe next to a shipped one, or a base below it, counts as shipped and gets its name."""
    if not child.name.startswith(PREFIX):
        return parent
    folder, own = (os.path.dirname(os.path.realpath(file.path)) for file in (parent, child))
    stem = os.path.splitext(os.path.basename(parent.path))[0]
    if os.path.basename(folder) == BASES and folder in (own, os.path.join(own, BASES)):
        return Place(f"{PREFIX}{BASES}/{stem}", parent.path)
    return Place(f"{PREFIX}{stem}" if folder == own else parent.path, parent.path)


def _find_shipped(written: str, mark: Mark) -> Place | Finding:
    name = written.removeprefix(PREFIX).removesuffix(".yaml")
    known = shipped_files() | shipped_bases()
    if name in known:
        return Place(PREFIX + name, str(known[name]))
    near = nearest_words(name[:100], known, cutoff=0.5)
    fix = f"extends: {PREFIX}{near[0]}" if near else "grpo-run init --list shows them"
    if name == "smollm2":
        fix = "grpo-run init smollm2, which makes the model and a recipe, then extends: smollm2.yaml"
    because = f"there are {_names_text(known)}" if known else "the shipped recipes are not installed, but in the wheel"
    return refusal(ids.EXTENDS_VALUE, f"no shipped recipe is named {visible_text(name)}", mark, fix, because, KEY)


def _missing(written: str, beside: Place, child: Place, mark: Mark) -> Finding:
    suffix = "" if written.endswith(SUFFIXES) else SUFFIXES[0]
    folder = os.path.dirname(beside.path) or "."
    try:
        names = sorted(name for name in os.listdir(folder)[:1000] if name.endswith(SUFFIXES[0]))
    except OSError:
        names = []
    is_own = os.path.realpath(folder) == os.path.realpath(os.path.dirname(child.path))
    there = [name[: -len(SUFFIXES[0])] for name in names if not is_own or name != os.path.basename(child.path)]
    stem = os.path.basename(written).removesuffix(SUFFIXES[0])
    near = nearest_words(stem[:100], there, cutoff=0.5)
    fix = f"extends: {PREFIX}{stem}" if stem in shipped_files() else "check the path"
    if near:
        fix = f"extends: {os.path.join(os.path.dirname(written), near[0] + ('' if suffix else SUFFIXES[0]))}"
    because = f"its folder has {_names_text(there)}" if there else "its folder has no recipe, or does not exist"
    message = f"{visible_text(beside.name + suffix, 80)} does not exist"
    return refusal(ids.UNREADABLE, message, mark, visible_text(fix, 100), because, KEY)


def _names_text(names: Iterable[str]) -> str:
    return join_items([visible_text(name, 40) for name in names], MOST_NAMES)


def shipped_folder() -> Path | None:
    """The folder of the shipped recipes, None if they are not installed.

    `pip install --target` moves the package's data next to the package, and leaves the original paths in its RECORD.
    """
    root = Path(grpo_recipes.__file__).parents[1]
    for beside in (root / "recipes", root / "share" / DISTRIBUTION / "recipes"):
        if (beside / ANCHOR).is_file():
            return beside
    from importlib.metadata import PackageNotFoundError, files  # a checkout does not need it

    try:
        installed = files(DISTRIBUTION) or []
    except PackageNotFoundError:
        installed = []
    anchors = (Path(str(file.locate())) for file in installed if file.parts[-2:] == ("recipes", ANCHOR))
    return next((path.resolve().parent for path in anchors if path.is_file()), None)


def shipped_files() -> dict[str, Path]:
    """The files of all shipped recipes by name, empty if they are not installed; the catalogue's last."""
    folder = shipped_folder()
    if folder is None:
        return {}
    return {path.stem: path for beside in (folder, folder / CATALOGUE) for path in sorted(beside.glob("*.yaml"))}


def shipped_bases() -> dict[str, Path]:
    """The bases of the catalogue's recipes by names such as bases/gsm8k: one task each, no complete recipes."""
    folder = shipped_folder()
    places = [] if folder is None else sorted((folder / CATALOGUE / BASES).glob("*.yaml"))
    return {f"{BASES}/{path.stem}": path for path in places}
