"""Finds GPUs: those that the driver shows to this process, and those that a target names."""

import functools
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.stack.stack import Gpu

_DRIVER_FOLDER = Path("/proc/driver/nvidia/gpus")
# Without persistence mode the driver first initializes each GPU: several seconds on a machine with eight.
_TIMEOUT_S = 30.0
_SLICE = "MIG slice of "
_MEMORY_SUFFIX = r"-(\d{1,4})GB"
_SIZE = r"(\d{1,4})\s*G(?:I?B)?"
_SLACK = 0.1
"""Vendors call 16 GB what the driver reports as 15 GiB."""
# Words in a name that determine neither memory nor capability.
_FORMS = "NVIDIA|TESLA|GEFORCE|GPU|GENERATION|PCIE|SXM[2-6]?|DGXS|MEGA|FHHL|HBM[23]E?"


def visible_gpus() -> tuple[Gpu, ...] | None:
    """The GPUs that CUDA shows to this process, in its order; None if the driver does not answer.

    () without a driver. Respects CUDA_VISIBLE_DEVICES. Takes at most 30 s.
    """
    nvidia_smi = shutil.which("nvidia-smi")
    if nvidia_smi is None:
        return None if _DRIVER_FOLDER.exists() else ()
    listed = _ask(nvidia_smi)
    if listed is None:
        return None
    return select_visible(listed, os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("CUDA_DEVICE_ORDER"))


def select_visible(listed: dict[str, Gpu], visible: str | None, order: str | None = None) -> tuple[Gpu, ...]:
    """The GPUs of `listed` (by UUID, in nvidia-smi's order) that CUDA_VISIBLE_DEVICES names.

    visible: None shows all; "" shows none; an entry that names no GPU hides it and all that follow, as CUDA does. A MIG
    slice has unknown memory. An index into different GPUs gives an unknown one unless order is "PCI_BUS_ID", since
    CUDA's numbering may otherwise differ from nvidia-smi's.
    """
    if visible is None:
        return _of_mig(tuple(listed.values()))
    by_place = list(listed.values())
    chosen: list[Gpu] = []
    for entry in (part.strip() for part in visible.split(",")):
        if entry.isdigit() and int(entry) < len(by_place):
            is_certain = len(set(by_place)) == 1 or order == "PCI_BUS_ID"
            chosen.append(by_place[int(entry)] if is_certain else Gpu(f"GPU {entry}", None, None))
        elif entry.startswith("MIG-"):
            chosen.append(Gpu(entry, None, None))
        elif entry.startswith("GPU-") and (same := [u for u in listed if u.startswith(entry)]):
            chosen.append(listed[same[0]])
        else:
            break
    return tuple(chosen)


def _of_mig(gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The GPUs that CUDA shows if MIG is enabled: only one slice, which hides whole GPUs."""
    return next(((gpu,) for gpu in gpus if gpu.name.startswith(_SLICE)), gpus)


def parse_listing(text: str) -> dict[str, Gpu]:
    """UUID -> GPU from lines "uuid, name, memory.total in MiB, compute_cap, mig.mode.current".

    An unknown capability or memory is None, as is the memory of a GPU with MIG slices, of which a process gets one.
    Raises ValueError for a line of a different form.
    """
    listed: dict[str, Gpu] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        uuid, name, memory_mib, compute_capability, mig = (part.strip() for part in line.split(","))
        memory_gib = round(float(memory_mib) / 1024, 2) if re.fullmatch(r"[\d.]+", memory_mib) else None
        parts = re.fullmatch(r"(\d+)\.(\d+)", compute_capability)
        is_cut = mig == "Enabled"
        name, memory_gib = (f"{_SLICE}{name}", None) if is_cut else (name, memory_gib)
        listed[uuid] = Gpu(name, memory_gib, (int(parts[1]), int(parts[2])) if parts else None)
    return listed


def gpu_by_name(name: str) -> Gpu:
    """The GPU that a target calls by this name, as nvidia-smi, Slurm and clouds spell it.

    "H100-80GB", "a100 40gb", "NVIDIA A100-SXM4-80GB", "nvidia-tesla-t4", "RTX4090" and "A6000" are one entry of the
    table each. Memory in the name selects an entry of about that size, or else is used as it is; a name that is not in
    the table has only the memory that it states, also as in "MI300X:192GB", and no capability. A name shared by several
    sizes means the smallest.
    """
    name, _, memory = name.partition(":")
    key = re.sub(r"[\s_-]+", "-", name.strip()).upper().removeprefix("NVIDIA-")
    table = _known_gpus()
    base, memory_gib = _base_and_memory(key)
    if size := re.fullmatch(_SIZE, memory.strip().upper()):
        memory_gib = float(size[1])
    exact = f"{base}-{memory_gib:g}GB" if memory_gib else key if key in table else base
    if exact in table:
        return Gpu(exact, *table[exact])
    sizes = [variant for variant in table if re.fullmatch(re.escape(base) + _MEMORY_SUFFIX, variant)]
    entry = base if base in table else sizes[0] if len(sizes) == 1 else None
    if entry is None:
        return Gpu(key, memory_gib, None)
    known_gib, capability = table[entry]
    if memory_gib is None or abs(memory_gib - known_gib) <= _SLACK * known_gib:
        return Gpu(entry, known_gib, capability)
    return Gpu(f"{base}-{memory_gib:g}GB", memory_gib, capability)


def sizes_in_gb(name: str) -> tuple[int, ...]:
    """The sizes in which GPUs of this name are sold, smallest first; () if the name states it."""
    return tuple(_table().get(name, {}).get("sizes", ()))


def nearest_gpu(name: str) -> str | None:
    """The most similar name in the table."""
    return next(iter(nearest_words(name, _table(), cutoff=0.75)), None)


def _base_and_memory(key: str) -> tuple[str, float | None]:
    """The name as in the table, without maker, form factor and memory; and the memory in GB."""
    if "MIG" in key.split("-"):
        return key, None  # a slice has less than the whole
    parts = [
        part
        for part in re.sub(r"(?<=\d)-(?=G(I?B)?(-|$)|TI(-|$))", "", key).split("-")
        if not re.fullmatch(_FORMS, part)
    ]
    sizes = [float(size[1]) for part in parts if (size := re.fullmatch(_SIZE, part))]
    base = "-".join(part for part in parts if not re.fullmatch(_SIZE, part))
    base = re.sub(r"^(RTX|GTX)(?=[\dA])", r"\1-", base)
    base = re.sub(r"^(?=A[456][05]00$|[2345]0[6-9]0(TI)?$)", "RTX-", base)
    base = re.sub(r"(?<=000)ADA$", "-ADA", base)
    if base == "GH200" and sizes == [480.0]:  # the driver names the memory of its CPU
        return base, None
    return base, sizes[0] if len(sizes) == 1 else None


def _ask(nvidia_smi: str) -> dict[str, Gpu] | None:
    import subprocess  # a machine without GPUs does not pay for it

    command = [
        nvidia_smi,
        "--query-gpu=uuid,name,memory.total,compute_cap,mig.mode.current",
        "--format=csv,noheader,nounits",
    ]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
        return parse_listing(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


@functools.cache
def _known_gpus() -> dict[str, tuple[float, tuple[int, int]]]:
    return {name: (gpu["memory_gib"], (gpu["capability"][0], gpu["capability"][1])) for name, gpu in _table().items()}


@functools.cache
def _table() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = json.loads(
        Path(__file__).with_name("known_gpus.json").read_text(encoding="utf-8")
    )
    return table
