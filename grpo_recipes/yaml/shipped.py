"""Where the recipes that come with grpo-run lie: in a checkout in recipes/, installed beside the package's data."""

from pathlib import Path

import grpo_recipes

ANCHOR = "quickstart.yaml"
DISTRIBUTION = "grpo-recipes"
PREFIX = f"{DISTRIBUTION}:"


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
    """The files of all shipped recipes by their names, none where they are not installed."""
    folder = shipped_folder()
    return {} if folder is None else {path.stem: path for path in sorted(folder.glob("*.yaml"))}
