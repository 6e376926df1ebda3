"""Changes modules in the archive of a run folder, which its trainings import."""

import zipfile
from pathlib import Path

ARCHIVE = Path("worker", "grpo_recipes.zip")


def replace_module(run_folder: Path, name: str, text: str) -> None:
    """Writes the text of one module, such as grpo_recipes/worker/training.py, into the archive."""
    with zipfile.ZipFile(run_folder / ARCHIVE) as archive:
        texts = {each: archive.read(each) for each in archive.namelist()}
    with zipfile.ZipFile(run_folder / ARCHIVE, "w") as archive:
        for each, content in {**texts, name: text.encode()}.items():
            archive.writestr(zipfile.ZipInfo(each), content)


def read_module(run_folder: Path, name: str) -> str:
    """The text of one module in the archive."""
    with zipfile.ZipFile(run_folder / ARCHIVE) as archive:
        return archive.read(name).decode()
