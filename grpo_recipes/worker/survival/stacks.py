"""The files of a run folder that get the stacks of a process that hangs: stalled/rank-N.txt."""

from pathlib import Path

from grpo_recipes.contract.files.folder_files import make_folder, open_to_append


def stacks_file(path: Path) -> int:
    """The descriptor of such a file, which is written on from its end. Raises OSError."""
    folder = path.parent.parent
    make_folder(folder, path.parent.name)
    return open_to_append(folder, f"{path.parent.name}/{path.name}")
