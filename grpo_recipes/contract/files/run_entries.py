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

MODELS = ("final", "extended_model", "merged_model", "dequantized_model")
FILES = (
    *("plan.json", "integrity.json", "recipe.yaml", "launch.sh", "train.sh", "accelerate.yaml", "deepspeed.json"),
    *("run.json", "run.json.damaged", "metrics.jsonl", "completions.jsonl", "train.log", "vllm_server.json"),
    *("vllm_server.log", ".lock", ".training.lock", ".serving.lock"),
    *(name for kind in ENGINES.values() for name in (*kind.scripts, *kind.traces)),
    *(".meeting.*", ".job-*", ".probe.*"),  # the mark of a machine or of a job, and files written for a moment
)
FOLDERS = (
    *("worker", "checkpoints", "cache", "completions", "evaluation", "stalled", "tensorboard", *MODELS),
    *(".removed-*", *(f".{name}.writing" for name in MODELS)),  # half removed, half written
)
_MOST = 20_000_000


def refuse_foreign_entries(folder: Path, *, deep: bool = True) -> None:
    """Raises NotRegular for a link, a pipe or a device instead of, or inside, one of the run's files or folders.

    Links within such a folder may lead to entries of the same folder. deep: also checks the content of folders. Changes
    nothing. Any other OSError means that the folder cannot be read.
    """
    for name in names(folder):
        is_folder = _is_one_of(name, FOLDERS)
        there = status(folder, name) if is_folder or _is_one_of(name, FILES) else None
        if there is None:
            continue
        if stat.S_IFMT(there.st_mode) != (stat.S_IFDIR if is_folder else stat.S_IFREG):
            raise NotRegular(kind(there), os.path.join(folder, name))
        if is_folder and deep:
            _look_into(folder, name)


def strange_entry(problem: NotRegular) -> Finding:
    """The error for such a folder."""
    path = str(problem.filename)
    return mistake(
        f"{path if path.isprintable() else ascii(path)} is not the run's own",
        because=f"{problem.strerror}, so a run could write or remove anything there",
        fix="replace it with the file or folder itself, or remove it",
    )


def _is_one_of(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _look_into(folder: Path, name: str) -> None:
    own = os.path.join(folder, name)
    try:
        for inside, entry in walk(folder, name, most=_MOST):
            if stat.S_ISREG(entry.st_mode) or stat.S_ISDIR(entry.st_mode):
                continue
            path = os.path.join(own, inside)
            if not stat.S_ISLNK(entry.st_mode):
                raise NotRegular(kind(entry), path)
            if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(own)):
                raise NotRegular(f"it is a link that leads out of {name}/", path)
    except FileNotFoundError:
        pass  # a run that trains there removes what it no longer needs
