"""A compilation that was killed leaves a lock, and whoever needs the same extension waits for it without end.

torch builds an extension under a file named `lock`, has no time-out for it, and says nothing while it waits (torch
2.13.0 file_baton.py). DeepSpeed builds one for offloaded optimizer states, and one for nvme.
"""

import os
from pathlib import Path
from typing import Any, cast

from grpo_recipes.contract.files.bounded_json import read_json
from grpo_recipes.worker._shared.inputs import Refused


def refuse_stale_lock(folder: Path) -> None:
    """Raises Refused if a run that offloads would wait for a lock that no process of this machine holds."""
    if not _offloads(folder):
        return
    locks = {lock.resolve() for depth in ("*", "*/*") for lock in extensions_folder().glob(f"{depth}/lock")}
    stale = sorted(str(lock) for lock in locks - _open_files()) if locks else []
    if stale:
        raise Refused.of(
            f"a lock of torch's extensions was left behind: {', '.join(stale)}",
            because="DeepSpeed would wait for it without end; no process on this machine holds it",
            fix=f"rm {' '.join(stale)}, unless another machine is compiling there now",
        )


def extensions_folder() -> Path:
    """Where torch builds extensions. Source: torch 2.13.0 cpp_extension.py get_default_build_root."""
    said = os.environ.get("TORCH_EXTENSIONS_DIR")
    if said:
        return Path(said)
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "torch_extensions"


def _offloads(folder: Path) -> bool:
    try:
        zero = cast("dict[str, Any]", read_json(folder, "deepspeed.json")).get("zero_optimization", {})
    except FileNotFoundError:
        return False
    devices = [zero.get(name, {}).get("device", "none") for name in ("offload_optimizer", "offload_param")]
    return any(device != "none" for device in devices)


def _open_files() -> set[Path]:
    """The files that processes of this machine have open, as far as this user may see."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            found.add(Path(os.readlink(link)))
        except OSError:
            continue  # ended meanwhile, or another user's
    return found
