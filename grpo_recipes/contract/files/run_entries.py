"""Checks all entries of a run folder for links and special files before anything is written or removed there.

Libraries write checkpoints, models and caches by path, so a link in a stranger's folder would lead them outside. Other
entries are harmless and may contain links, as wandb/ does.
"""

import fnmatch
import os
import stat
from pathlib import Path

from grpo_recipes.contract.files.folder_files import names, status, walk
from grpo_recipes.contract.files.regular_file import NotRegular, kind
from grpo_recipes.contract.findings.finding import Finding, mistake
from grpo_recipes.contract.host.engines import ENGINES

FILES = (
    "plan.json",
    "integrity.json",
    "recipe.yaml",
    "launch.sh",
    "train.sh",
    "accelerate.yaml",
    "deepspeed.json",
    "run.json",
    "run.json.damaged",
    "metrics.jsonl",
    "completions.jsonl",
    "train.log",
    "vllm_server.json",
    "vllm_server.log",
    ".reserve",
    ".lock",
    ".training.lock",
    ".serving.lock",
    *(name for kind in ENGINES.values() for name in (*kind.scripts, *kind.traces)),
)
FOLDERS = (
    "worker",
    "checkpoints",
    "final",
    "cache",
    "completions",
    "extended_model",
    "merged_model",
    "dequantized_model",
    "evaluation",
    "stalled",
    "tensorboard",
)
# Temporary entries: a file or folder being written or removed, the mark of a machine or of a job.
PASSING_FILES = (".meeting.*", ".job-*", ".probe.*")
PASSING_FOLDERS = (
    ".removed-*",
    *(f".{name}.writing" for name in ("final", "extended_model", "merged_model", "dequantized_model")),
)
_MOST = 20_000_000


def refuse_foreign_entries(folder: Path, *, deep: bool = True) -> None:
    """Raises NotRegular for a link, a pipe or a device instead of, or inside, one of the run's files or folders.

    Links within such a folder may lead to entries of the same folder. deep: also checks the content of folders. Changes
    nothing. Any other OSError means that the folder cannot be read.
    """
    found = names(folder)
    for name in found:
        if name in FILES or any(fnmatch.fnmatchcase(name, one) for one in PASSING_FILES):
            _refuse_another_kind(folder, name, stat.S_IFREG)
        elif name in FOLDERS or any(fnmatch.fnmatchcase(name, one) for one in PASSING_FOLDERS):
            _refuse_another_kind(folder, name, stat.S_IFDIR)
    for name in FOLDERS if deep else ():
        if name in found:
            _look_into(folder, name)


def strange_entry(problem: NotRegular) -> Finding:
    """The error for such a folder."""
    path = str(problem.filename)
    return mistake(
        f"{path if path.isprintable() else ascii(path)} is not the run's own",
        because=f"{problem.strerror}, so a run could write or remove anything there",
        fix="replace it with the file or folder itself, or remove it",
    )


def _refuse_another_kind(folder: Path, name: str, wanted: int) -> None:
    found = status(folder, name)
    if found is not None and stat.S_IFMT(found.st_mode) != wanted:
        raise NotRegular(kind(found), os.path.join(folder, name))


def _look_into(folder: Path, name: str) -> None:
    try:
        for inside, found in walk(folder, name, most=_MOST):
            if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode):
                continue
            path = os.path.join(folder, name, inside)
            if not stat.S_ISLNK(found.st_mode):
                raise NotRegular(kind(found), path)
            if not _is_inside(path, os.path.join(folder, name)):
                raise NotRegular(f"it is a link that leads out of {name}/", path)
    except FileNotFoundError:
        pass  # a run that trains there removes what it no longer needs


def _is_inside(path: str, folder: str) -> bool:
    """Whether everything that a link leads to is inside a folder."""
    return os.path.realpath(path).startswith(os.path.realpath(folder) + os.sep)
