"""Experiments that say how the laboratory itself works."""

import os
import sys
import time
from pathlib import Path


def ways(folder: Path) -> dict[str, str]:
    """Where the process runs, and where it has TRL from."""
    import trl

    return {"folder": str(Path.cwd()), "given": str(folder), "trl": trl.__version__, "file": str(trl.__file__)}


def leave(folder: Path, *, mark: str) -> bool:
    """Leaves a mark in a class of TRL; gives whether another one was there."""
    from trl import GRPOTrainer

    found = hasattr(GRPOTrainer, "mark")
    GRPOTrainer.mark = mark
    return found


def wait_for_the_first(folder: Path) -> None:
    """Rank 0 raises, the others wait for it without end."""
    if os.environ["RANK"] == "0":
        raise ValueError(f"rank 0 of {os.environ['WORLD_SIZE']}")
    while True:
        time.sleep(1)


def end(folder: Path) -> None:
    """The process ends without an answer."""
    print("the last words")
    sys.stdout.flush()
    os._exit(5)


def tell(folder: Path) -> int:
    """One more line in the file of all experiments of this stack; gives their number."""
    import warnings

    warnings.warn("told", FutureWarning, stacklevel=1)
    told = folder.parent / "told.txt"
    told.write_text(told.read_text() + "\n" if told.exists() else "\n")
    return len(told.read_text())
