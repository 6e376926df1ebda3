"""The environment that a run's processes inherit: search paths, writable caches and machine limits."""

import contextlib
import os
import resource
import socket
from collections.abc import Collection, Mapping, MutableMapping
from pathlib import Path
from typing import NamedTuple

from grpo_recipes.contract.findings.finding import Finding, Severity

# Variables that list files and folders in which programs, libraries and headers are found.
LISTS_OF_PLACES = (
    *("PATH", "BASH_ENV", "ENV", "PYTHONPATH", "PYTHONHOME", "PYTHONPYCACHEPREFIX", "PERL5LIB", "NODE_PATH"),
    *("LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_LIBRARY_PATH", "DYLD_FRAMEWORK_PATH", "DYLD_INSERT_LIBRARIES"),
    *("GCONV_PATH", "LOCPATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"),
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH"),
)
PRELOAD = "LD_PRELOAD"
"""Its entries may be names without a folder, which the loader looks up among the system's libraries."""
SAFE_PATH = "PYTHONSAFEPATH"
OF_THE_LAUNCH = "launch"
"""The value of PYTHONSAFEPATH that launch.sh sets, to distinguish it from the user's; Python accepts any."""
REPORTS = "reports"
"""The folder of a run folder in which each start gets a folder to run in."""
_DEEPSPEED = "ACCELERATE_DEEPSPEED_CONFIG_FILE"


def absolute_places(environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The environment without relative entries in search paths, and the variables that had some.

    A relative entry means whatever folder a program is started in. launch.sh removes them in the same way.
    """
    absolute, changed = dict(environment), list[str]()
    for name in (*LISTS_OF_PLACES, PRELOAD):
        value = environment.get(name, "")
        entries = value.replace(" ", ":").split(":") if name == PRELOAD else value.split(":")
        good = [entry for entry in entries if _is_absolute(entry, may_be_a_name=name == PRELOAD)]
        if value and len(good) < len(entries):
            del absolute[name]
            absolute |= {name: ":".join(good)} if any(good) else {}
            changed.append(name)
    return absolute, changed


def changes_note(changed: list[str]) -> str:
    """One line that names the changed variables."""
    return f"note: {', '.join(changed)}: relative entries are ignored"


def _is_absolute(entry: str, *, may_be_a_name: bool) -> bool:
    return entry.startswith("/") or (may_be_a_name and "/" not in entry)


def settle(environment: MutableMapping[str, str], folder: Path) -> None:
    """Gives a trainer, and programs that its rewards start, the user's environment.

    The trainer's own Python is unaffected. accelerate passes paths of accelerate.yaml on unchanged, while the trainer
    does not start in the run folder.
    """
    if environment.get(SAFE_PATH) == OF_THE_LAUNCH:
        del environment[SAFE_PATH]
    if _DEEPSPEED in environment:
        environment[_DEEPSPEED] = str(folder / environment[_DEEPSPEED])


OWN_FOLDERS = (
    *("HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "XDG_CACHE_HOME", "VLLM_CACHE_ROOT", "FLASHINFER_WORKSPACE_BASE"),
    *("TRITON_HOME", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_CACHE_DIR"),
    "XDG_CONFIG_HOME",
)
"""Variables that name a folder of this user which a run writes to: caches, and grpo-run's own."""
OF_VLLM = ("vllm", "flashinfer", "triton")
OF_THE_HUB = ("huggingface_hub",)
OF_DEEPSPEED = ("deepspeed",)


def find_locked_caches(environment: Mapping[str, str], packages: Collection[str], severity: Severity) -> Finding | None:
    """The finding about caches of these packages that this user cannot write; None if all are writable.

    Source: vllm 0.30.0, flashinfer 0.6.18, triton 3.7, huggingface_hub 2.0, torch 2.13 for deepspeed's extensions.
    """
    home = environment.get("HOME") or os.path.expanduser("~")  # stays "~" for a user without an entry in passwd
    caches = environment.get("XDG_CACHE_HOME") or f"{home}/.cache"
    places = {
        "huggingface_hub": ("HF_HOME", f"{caches}/huggingface", ""),
        "vllm": ("VLLM_CACHE_ROOT", f"{caches}/vllm", ""),
        "flashinfer": ("FLASHINFER_WORKSPACE_BASE", home, "/.cache/flashinfer"),
        "triton": ("TRITON_CACHE_DIR", f"{environment.get('TRITON_HOME') or home}/.triton/cache", ""),
        "deepspeed": ("TORCH_EXTENSIONS_DIR", f"{caches}/torch_extensions", ""),
    }
    locked = {}
    for package in packages:
        variable, usual, below = places[package]
        folder = os.path.expanduser(environment.get(variable) or usual) + below
        # flashinfer looks up the home even if its variable is set.
        if not _can_be_made(folder) or (package == "flashinfer" and home == "~"):
            locked[variable] = f"{package}: {folder}"
    if not locked:
        return None
    return Finding(
        LOCKED_CACHE,
        severity,
        f"caches that this user cannot write: {len(locked)}",
        because=tuple(locked.values()),
        fix=f"set HOME to a folder that this user can write, or {', '.join(locked)}",
    )


def _can_be_made(folder: str) -> bool:
    """Whether a folder is writable or can be made. A path with ~ belongs to a user without a home, so it cannot."""
    if folder.startswith("~"):
        return False
    folder = os.path.abspath(folder)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    return os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)


SMALL_LIMIT = "WLD013"
LOCKED_CACHE = "STK018"
_SHARED, _LEAST_SHARED = "/dev/shm", 1 << 30
_INFINIBAND, _LEAST_LOCKED = "/dev/infiniband", 1 << 30


class MachineLimits(NamedTuple):
    """The limits of a machine on communicating processes.

    shared_memory: bytes free in /dev/shm, None if it is missing or unlimited. locked_memory: bytes that a process may
    lock, None for no limit. infiniband: whether there is any. interfaces: network interfaces.
    """

    shared_memory: int | None = None
    locked_memory: int | None = None
    infiniband: bool = False
    interfaces: tuple[str, ...] = ()


def limits() -> MachineLimits:
    """The limits of this machine."""
    shared = None
    with contextlib.suppress(OSError):
        there = os.statvfs(_SHARED)
        is_limited = there.f_blocks > 0  # a tmpfs with size=0 has no limit, and reports no free space
        shared = there.f_bavail * there.f_frsize if is_limited else None
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return MachineLimits(
        shared_memory=shared,
        locked_memory=None if locked == resource.RLIM_INFINITY else locked,
        infiniband=os.path.isdir(_INFINIBAND),
        interfaces=tuple(name for _, name in socket.if_nameindex()),
    )


def small_for_nccl(machine: MachineLimits | None = None) -> list[Finding]:
    """Warnings about limits that may be too small for several processes with a GPU each.

    machine: None for this one. NCCL needs some MiB of shared memory per pair and channel, and locks its buffers for
    InfiniBand. Source of the sizes: NVIDIA's containers ask for `--shm-size=1g --ulimit memlock=-1`; Docker's defaults
    are 64 MiB and 64 KiB.
    """
    has, findings = machine or limits(), []
    if has.shared_memory is not None and has.shared_memory < _LEAST_SHARED:
        text = f"{_SHARED} has {has.shared_memory >> 20} MiB free, which may be too little for NCCL between GPUs"
        fix = "docker run --shm-size=16g; in Kubernetes mount an emptyDir with medium: Memory there"
        findings.append(Finding(SMALL_LIMIT, "warning", text, fix=fix))
    if has.infiniband and has.locked_memory is not None and has.locked_memory < _LEAST_LOCKED:
        text = f"a process may lock {has.locked_memory >> 10} KiB, which may be too little for NCCL over InfiniBand"
        fix = "ulimit -l unlimited, as docker run --ulimit memlock=-1, or in limits.conf and for the scheduler"
        findings.append(Finding(SMALL_LIMIT, "warning", text, fix=fix))
    return findings


def remove_unused(folder: Path) -> None:
    """Removes folders of starts into which nothing was written. Call it only while the run is not running."""
    reports = folder / REPORTS
    if reports.is_symlink():
        return
    for path in [*reports.glob("*"), reports]:
        with contextlib.suppress(OSError):
            path.rmdir()  # removes neither a link nor a folder with content
