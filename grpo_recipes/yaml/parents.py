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
from grpo_recipes.yaml.page import visible_text

ANCHOR = "quickstart.yaml"
DISTRIBUTION = "grpo-recipes"
PREFIX = f"{DISTRIBUTION}:"
CATALOGUE = "catalogue"
BASES = "bases"
SUFFIXES = (".yaml", ".yml")
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
        return _no_name(mark)
    if written.startswith(PREFIX):
        return _find_shipped(written, mark)
    beside = Place(_beside(child.name, written), _beside(child.path, written))
    for suffix in ("",) if written.endswith(SUFFIXES) else SUFFIXES:
        if os.path.exists(beside.path + suffix):
            file = Place(beside.name + suffix, beside.path + suffix)
            return _with_shipped_name(file, child) if _leads_to_yaml(file) else _no_yaml(file, mark)
    if os.path.isdir(beside.path):
        return beside  # the reader refuses it as a directory
    return _missing(written, beside, child, mark)


def _chain_finding(parent: Place, chain: Sequence[Place], mark: Mark) -> Finding | None:
    """Why a chain cannot have one more parent: a cycle, or too many."""
    real = os.path.realpath(parent.path)
    paths = [os.path.realpath(link.path) for link in chain]
    if real in paths:
        names = [link.name for link in chain[paths.index(real) :]]
        circle = " -> ".join(visible_text(os.path.basename(name), 20) for name in [*names[:4], names[0]])
        message = "the files extend each other in a circle" if len(names) > 1 else "the file extends itself"
        return _finding(ids.EXTENDS_CYCLE, message, mark, f"the circle is {circle}", "remove one extends of the circle")
    if len(chain) > MAX_PARENTS:
        message = f"more than {MAX_PARENTS} files are chained by extends"
        because = f"{visible_text(chain[0].name)} reaches this file after {MAX_PARENTS} others"
        return _finding(ids.EXTENDS_TOO_DEEP, message, mark, because, "put some of them into one file")
    return None


def _beside(file: str, written: str) -> str:
    return os.path.join(os.path.dirname(file), written)


def _with_shipped_name(parent: Place, child: Place) -> Place:
    """A recipe next to a shipped one, or a base below it, counts as shipped and gets its name."""
    if not child.name.startswith(PREFIX):
        return parent
    folder, own = (os.path.dirname(os.path.realpath(file.path)) for file in (parent, child))
    stem = os.path.splitext(os.path.basename(parent.path))[0]
    if os.path.basename(folder) == BASES and folder in (own, os.path.join(own, BASES)):
        return Place(f"{PREFIX}{BASES}/{stem}", parent.path)
    return Place(f"{PREFIX}{stem}" if folder == own else parent.path, parent.path)


def _leads_to_yaml(file: Place) -> bool:
    return os.path.isdir(file.path) or os.path.realpath(file.path).endswith(SUFFIXES)


def _find_shipped(written: str, mark: Mark) -> Place | Finding:
    name = written.removeprefix(PREFIX).removesuffix(".yaml")
    known = shipped_files() | shipped_bases()
    if name in known:
        return Place(PREFIX + name, str(known[name]))
    message = f"no shipped recipe is named {visible_text(name)}"
    if not known:
        because, fix = "the shipped recipes are not installed", "install the package grpo-recipes from its wheel"
        return _finding(ids.EXTENDS_VALUE, message, mark, because, fix)
    near = nearest_words(name[:100], known, cutoff=0.5)
    fix = f"extends: {PREFIX}{near[0]}" if near else "grpo-run init --list shows them"
    return _finding(ids.EXTENDS_VALUE, message, mark, f"there are {_names_text(known)}", fix)


def _no_name(mark: Mark) -> Finding:
    because = "it takes the path of one file, or grpo-recipes:NAME"
    return _finding(ids.EXTENDS_VALUE, "extends does not name a file", mark, because, "extends: base.yaml")


def _no_yaml(file: Place, mark: Mark) -> Finding:
    message = f"{visible_text(file.name, 80)} is a link to a file that is not .yaml"
    because = "extends only reads .yaml and .yml files"
    return _finding(ids.EXTENDS_VALUE, message, mark, because, "put the recipe itself there")


def _missing(written: str, beside: Place, child: Place, mark: Mark) -> Finding:
    whole = "" if written.endswith(SUFFIXES) else SUFFIXES[0]
    there = _recipes_of(os.path.dirname(beside.path) or ".", child)
    stem = os.path.basename(written).removesuffix(SUFFIXES[0])
    near = nearest_words(stem[:100], there, cutoff=0.5)
    fix = f"extends: {os.path.join(os.path.dirname(written), near[0] + ('' if whole else SUFFIXES[0]))}" if near else ""
    if not fix and stem in shipped_files():
        fix = f"extends: {PREFIX}{stem}"
    because = f"its folder has {_names_text(there)}" if there else "its folder has no recipe, or does not exist"
    message = f"{visible_text(beside.name + whole, 80)} does not exist"
    return _finding(ids.UNREADABLE, message, mark, because, visible_text(fix, 100) or "check the path")


def _recipes_of(folder: str, child: Place) -> list[str]:
    """The names of the other .yaml files of a folder, without the suffix."""
    own = os.path.basename(child.path) if _same_folder(folder, child) else None
    try:
        names = sorted(os.listdir(folder)[:1000])
    except OSError:
        return []
    return [name.removesuffix(SUFFIXES[0]) for name in names if name.endswith(SUFFIXES[0]) and name != own]


def _same_folder(folder: str, child: Place) -> bool:
    return os.path.realpath(folder) == os.path.realpath(os.path.dirname(child.path))


def _names_text(names: Iterable[str]) -> str:
    return join_items([visible_text(name, 40) for name in names], MOST_NAMES)


def _finding(rule: str, message: str, mark: Mark, because: str, fix: str) -> Finding:
    return Finding(rule, "error", message, "extends", mark, (because,), fix)


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
