"""GPUs: those that the driver shows to this process, and those that a target names."""

import functools
import json
import os
import re
import shutil
from pathlib import Path

from grpo_recipes.stack.stack import Gpu

_DRIVER_FOLDER = Path("/proc/driver/nvidia/gpus")
_TIMEOUT_S = 5.0
_MEMORY_SUFFIX = r"-(\d{1,4})GB$"


def visible_gpus() -> tuple[Gpu, ...] | None:
    """The GPUs that CUDA shows to this process, in its order; None when the driver does not answer.

    () when there is no driver. CUDA_VISIBLE_DEVICES is honoured. At most 5 s.
    """
    nvidia_smi = shutil.which("nvidia-smi")
    if nvidia_smi is None:
        return None if _DRIVER_FOLDER.exists() else ()
    listed = _ask(nvidia_smi)
    if listed is None:
        return None
    return select_visible(listed, os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("CUDA_DEVICE_ORDER"))


def select_visible(listed: dict[str, Gpu], visible: str | None, order: str | None = None) -> tuple[Gpu, ...] | None:
    """The GPUs of `listed` (by UUID, in nvidia-smi's order) that CUDA_VISIBLE_DEVICES names.

    visible: None shows all; "" shows none; an entry that names no GPU hides it and all that follow, as CUDA
    does. A MIG slice has unknown memory. None when indices choose among different GPUs and CUDA may number
    them otherwise than nvidia-smi, which it does unless order is "PCI_BUS_ID".
    """
    if visible is None:
        return tuple(listed.values())
    by_place = list(listed.values())
    chosen: list[Gpu] = []
    for entry in (part.strip() for part in visible.split(",")):
        if entry.isdigit() and int(entry) < len(by_place):
            if len(set(by_place)) > 1 and order != "PCI_BUS_ID":
                return None
            chosen.append(by_place[int(entry)])
        elif entry.startswith("MIG-"):
            chosen.append(Gpu(entry, None, None))
        elif entry.startswith("GPU-") and (same := [u for u in listed if u.startswith(entry)]):
            chosen.append(listed[same[0]])
        else:
            break
    return tuple(chosen)


def parse_listing(text: str) -> dict[str, Gpu]:
    """UUID -> GPU from lines "uuid, name, memory.total in MiB, compute_cap".

    A last column that the driver does not know gives no capability; memory that it cannot tell gives None.
    Raises ValueError for a line of another shape.
    """
    listed: dict[str, Gpu] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        uuid, name, memory_mib, compute_capability = (part.strip() for part in line.split(","))
        memory_gib = round(float(memory_mib) / 1024, 2) if re.fullmatch(r"[\d.]+", memory_mib) else None
        parts = re.fullmatch(r"(\d+)\.(\d+)", compute_capability)
        listed[uuid] = Gpu(name, memory_gib, (int(parts[1]), int(parts[2])) if parts else None)
    return listed


def named_gpu(name: str) -> Gpu:
    """The GPU that a target calls by this name, e.g. "H100-80GB", "a100 40gb", "NVIDIA L40S".

    A name that is not in the table has the memory of its suffix "-80GB" and no capability.
    """
    key = re.sub(r"[\s_-]+", "-", name.strip()).upper().removeprefix("NVIDIA-")
    known = _known_gpus().get(key)
    if known is not None:
        return Gpu(key, *known)
    suffix = re.search(_MEMORY_SUFFIX, key)
    return Gpu(key, float(suffix[1]) if suffix else None, None)


def _ask(nvidia_smi: str) -> dict[str, Gpu] | None:
    import subprocess  # a machine without GPUs does not pay for it

    command = [nvidia_smi, "--query-gpu=uuid,name,memory.total,compute_cap", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
        return parse_listing(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


@functools.cache
def _known_gpus() -> dict[str, tuple[float | None, tuple[int, int]]]:
    table = json.loads(Path(__file__).with_name("known_gpus.json").read_text(encoding="utf-8"))
    return {name: (gpu["memory_gib"], (gpu["capability"][0], gpu["capability"][1])) for name, gpu in table.items()}
