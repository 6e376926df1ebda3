"""Where the recipes that come with grpo-run lie: in a checkout in recipes/, installed beside the package's data.

Most of them are in the folder catalogue, and stand on the few files of its folder bases.
"""

from pathlib import Path

import grpo_recipes

ANCHOR = "quickstart.yaml"
DISTRIBUTION = "grpo-recipes"
PREFIX = f"{DISTRIBUTION}:"
CATALOGUE = "catalogue"
BASES = "bases"


def shipped_folder() -> Path | None:
    """The folder of the shipped recipes, None where they are not installed.

    `pip install --target` moves the package's data beside the package, and leaves in its RECORD where they were.
    """
    place = Path(grpo_recipes.__file__).parents[1]
    for beside in (place / "recipes", place / "share" / DISTRIBUTION / "recipes"):
        if (beside / ANCHOR).is_file():
            return beside
    from importlib.metadata import PackageNotFoundError, files  # a checkout does not need it

    try:
        installed = files(DISTRIBUTION) or []
    except PackageNotFoundError:
        installed = []
    found = (Path(str(one.locate())) for one in installed if one.parts[-2:] == ("recipes", ANCHOR))
    return next((path.resolve().parent for path in found if path.is_file()), None)


def shipped_files() -> dict[str, Path]:
    """The files of all shipped recipes by their names, none where they are not installed; the catalogue's last."""
    folder = shipped_folder()
    if folder is None:
        return {}
    return {path.stem: path for beside in (folder, folder / CATALOGUE) for path in sorted(beside.glob("*.yaml"))}


def shipped_bases() -> dict[str, Path]:
    """What the recipes of the catalogue stand on, by names such as bases/gsm8k: a task each, no recipe by itself."""
    folder = shipped_folder()
    places = [] if folder is None else sorted((folder / CATALOGUE / BASES).glob("*.yaml"))
    return {f"{BASES}/{path.stem}": path for path in places}
