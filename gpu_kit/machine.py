"""Describes a machine: its device, driver and packages, read by a separate process that uses the device."""

import json
import platform
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PACKAGES = ("trl", "transformers", "peft", "accelerate", "datasets", "bitsandbytes", "deepspeed", "vllm", "triton")
_LIMIT_S = 120
_LIVE = """
import json, torch
found = {"torch": torch.__version__, "cuda": torch.version.cuda, "sees_gpus": torch.cuda.device_count()}
if found["sees_gpus"]:
    one = torch.cuda.get_device_properties(0)
    found |= {"gpu": one.name, "gib": round(one.total_memory / 2**30, 2), "capability": [one.major, one.minor]}
    found |= {"bfloat16": torch.cuda.is_bf16_supported(), "works": float(torch.ones(8, device="cuda").sum()) == 8.0}
print(json.dumps(found))
"""
_ASKED = ("driver_version", "name", "memory.total", "compute_cap", "mig.mode.current")


def machine() -> dict[str, Any]:
    """Returns the device as torch and the driver report it, and the versions of the training packages."""
    return {
        **live_device(),
        "driver": driver(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpu": _processor(),
        **versions(),
    }


def versions() -> dict[str, str]:
    """Returns the training packages with their releases."""
    return {name: version for name in PACKAGES if (version := _version(name))}


def live_device() -> dict[str, Any]:
    """Returns what torch reports about the device when it uses it; "problem" if it cannot."""
    ran = subprocess.run([sys.executable, "-c", _LIVE], capture_output=True, text=True, timeout=_LIMIT_S)
    if ran.returncode:
        return {"problem": ran.stderr[-800:]}
    read: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return read


def driver() -> dict[str, str]:
    """Returns the first GPU from nvidia-smi; nothing without one."""
    command = ["nvidia-smi", f"--query-gpu={','.join(_ASKED)}", "--format=csv,noheader"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(zip(_ASKED, map(str.strip, said.splitlines()[0].split(",")), strict=False)) if said.strip() else {}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.processor()


def installed(name: str) -> bool:
    """Whether a package can be imported, without importing it."""
    return find_spec(name) is not None
