"""Determines the stack of this machine."""

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from grpo_recipes.stack.gpus import visible_gpus
from grpo_recipes.stack.stack import Stack, installed_packages


def probe() -> Stack:
    """The packages installed for this Python and the GPUs that the driver shows; imports none of the packages."""
    return Stack(
        python=".".join(str(part) for part in sys.version_info[:3]),
        packages=installed_packages(),
        gpus=visible_gpus(),
        avx512_bf16=has_avx512_bf16(),
        declared=False,
        origin="this machine",
        driver=driver_version(),
        torch_cuda=torch_cuda(),
        c_compiler=has_c_compiler(),
        python_headers=has_python_headers(),
    )


def has_avx512_bf16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool | None:
    """Whether the processor has AVX512-BF16; None if the system does not report it, and on others than x86."""
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as lines:
            # The first processor suffices, and the kernel generates this file slowly for hundreds.
            for line in lines:
                if line.startswith("flags"):
                    return "avx512_bf16" in line.split()
    except OSError:
        return None
    return None


# The kernel module's version is in one of them; the second has it within a sentence.
_DRIVER_FILES = (Path("/sys/module/nvidia/version"), Path("/proc/driver/nvidia/version"))
# NVIDIA's forward compatibility, as in their containers, puts a libcuda newer than the driver's below it.
_TOOLKITS = Path("/usr/local")
_LOADER_CACHE = Path("/etc/ld.so.cache")
_LONGEST_READ = 4_096


def driver_version(
    files: Iterable[Path] = _DRIVER_FILES, toolkits: Path = _TOOLKITS, loader_cache: Path = _LOADER_CACHE
) -> str | None:
    """The version of NVIDIA's driver, as "580.65.06"; None without one, and if a newer libcuda takes precedence."""
    for file in files:
        try:
            with file.open(encoding="utf-8", errors="replace") as lines:
                version = re.search(r"(?<![\w.])(\d{3,4}(?:\.\d+)+)(?![\w.])", lines.read(_LONGEST_READ))
        except OSError:
            continue
        if version:
            return None if _has_newer_libcuda(version[1], toolkits, loader_cache) else version[1]
    return None


def torch_cuda(search_path: Iterable[str] | None = None) -> str | None:
    """The CUDA that the installed torch was built for, as "13.0"; "" for a CPU build.

    None without torch, for ROCm and XPU builds, and if torch does not say. Does not import torch.
    """
    for folder in sys.path if search_path is None else search_path:
        file = Path(folder or ".", "torch", "version.py")
        try:
            with file.open(encoding="utf-8", errors="replace") as lines:
                versions = dict(re.findall(r"(?m)^(cuda|hip|xpu)\b[^=\n]*= *(.*)$", lines.read(_LONGEST_READ)))
        except OSError:
            continue
        cuda = re.fullmatch(r"['\"](\d+\.\d+)['\"]", versions.get("cuda", "").strip())
        if cuda:
            return cuda[1]
        return "" if versions.get("cuda", "").strip() == "None" and not _is_for_other_gpus(versions) else None
    return None


def has_c_compiler() -> bool:
    """Whether Triton finds a C compiler in its search order: $CC, gcc, clang."""
    named = os.environ.get("CC")
    return bool(named) or any(shutil.which(name) for name in ("gcc", "clang"))


def has_python_headers(prefix: str | None = None) -> bool:
    """Whether Python.h is installed with the Python of this environment."""
    folder = Path(sys.base_prefix if prefix is None else prefix, "include")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}{sys.abiflags}"
    return (folder / version / "Python.h").is_file()


def _has_newer_libcuda(driver: str, toolkits: Path, loader_cache: Path) -> bool:
    """Whether the loader, or a toolkit, provides a libcuda of a different version than the driver's."""
    folders = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    libraries = [Path(folder, "libcuda.so.1") for folder in folders]
    with contextlib.suppress(OSError):
        cached = re.findall(rb"(/[^\0]*/libcuda\.so\.1)\0", loader_cache.read_bytes())
        libraries += [Path(os.fsdecode(library)) for library in cached]
    for library in libraries:
        version = re.fullmatch(r"libcuda\.so\.(\d+\.[\d.]+)", library.resolve().name)
        if version and library.exists():
            return version[1] != driver
    return any((folder / "compat" / "libcuda.so.1").exists() for folder in toolkits.glob("cuda*"))


def _is_for_other_gpus(versions: dict[str, str]) -> bool:
    return any(versions.get(name, "None").strip() != "None" for name in ("hip", "xpu"))


_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")


def machine_memory(groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int | None:
    """Bytes of RAM, or the smallest limit of this process's control groups; None if unknown.

    In version 2 the limits of the group and all its parents apply, in version 1 those visible in a container.
    """
    limits = []
    with contextlib.suppress(OSError, ValueError):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with contextlib.suppress(OSError, ValueError):
        line = next((line for line in own.read_text().splitlines() if line.startswith("0::")), "0::/")
        group = groups / line[3:].strip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(groups):
                limits += _limit(folder)
    return min((size for size in limits if size > 0), default=None)


def _limit(folder: Path) -> list[int]:
    limits = []
    for name in _LIMITS:
        with contextlib.suppress(OSError, ValueError):
            limits.append(int((folder / name).read_text()))
    return limits
