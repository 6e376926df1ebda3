"""Where the recipes that come with grpo-run lie: in a checkout in recipes/, installed beside the package's data."""

from pathlib import Path

import grpo_recipes

ANCHOR = "quickstart.yaml"
DISTRIBUTION = "grpo-recipes"
PREFIX = f"{DISTRIBUTION}:"


def shipped_folder() -> Path | None:
    """Their folder, None where they are not installed."""
    checkout = Path(grpo_recipes.__file__).parents[1] / "recipes"
    if (checkout / ANCHOR).is_file():
        return checkout
    from importlib.metadata import PackageNotFoundError, files  # a checkout does not need it

    try:
        installed = files(DISTRIBUTION) or []
    except PackageNotFoundError:
        installed = []
    found = [Path(str(one.locate())) for one in installed if one.parts[-2:] == ("recipes", ANCHOR)]
    return found[0].resolve().parent if found else None


def shipped_files() -> dict[str, Path]:
    """The files of all shipped recipes by their names, none where they are not installed."""
    folder = shipped_folder()
    return {} if folder is None else {path.stem: path for path in sorted(folder.glob("*.yaml"))}
