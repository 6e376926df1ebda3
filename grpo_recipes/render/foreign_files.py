"""What of a run folder is not as this grpo-run writes it: a stranger's folder starts a stranger's programs."""

import hashlib
import shutil
from importlib.resources import files
from pathlib import Path

from grpo_recipes.plan import Plan
from grpo_recipes.render.run_folder import COPIED_FILES, COPIED_PARTS, written_texts

_STARTED = ("launch.sh", "train.sh", "job.sbatch", "accelerate.yaml", "deepspeed.json")


def foreign_files(plan: Plan, folder: str) -> dict[str, str]:
    """The files of a run folder that a launch runs and that are no copy of this package's: name -> sha256.

    plan: what plan.json of the folder says. Reward files, which the plan has the digests of, are left out. Compiled
    copies are removed, since Python would run them in place of what was looked at.
    """
    worker = Path(folder, "worker")
    for compiled in list(worker.rglob("__pycache__")):
        shutil.rmtree(compiled, ignore_errors=True)
    texts, found = written_texts(plan, ""), dict[str, str]()
    for name in _STARTED:
        text = texts[name]
        _compare(found, Path(folder), name, None if text is None else text.encode())
    for path in sorted(worker.rglob("*")):
        name = str(path.relative_to(folder))
        if (path.is_symlink() or not path.is_dir()) and not name.startswith("worker/user/"):
            own = _own(str(path.relative_to(worker)))
            _compare(found, Path(folder), name, own.read_bytes() if own is not None and own.is_file() else None)
    return found


def _own(name: str) -> Path | None:
    """The file of this package that a file below worker/ is a copy of, None for one that is copied from nowhere."""
    package = Path(str(files("grpo_recipes")))
    if name in ("train.py", "serve.py", "meet.py"):
        return package / "worker" / name
    inside = name.removeprefix("grpo_recipes/")
    is_copied = inside in COPIED_FILES or inside.split("/")[0] in COPIED_PARTS
    return package / inside if inside != name and is_copied else None


def _compare(found: dict[str, str], folder: Path, name: str, expected: bytes | None) -> None:
    path = folder / name
    if not path.exists() and not path.is_symlink():
        return
    content = path.read_bytes() if path.is_file() else b""
    if path.is_symlink() or content != expected:
        found[name] = hashlib.sha256(content).hexdigest()
