"""The stack of this machine."""

import sys
from pathlib import Path

from grpo_recipes.stack.gpus import visible_gpus
from grpo_recipes.stack.installed import installed_packages
from grpo_recipes.stack.native import driver_version, has_c_compiler, has_python_headers, torch_cuda
from grpo_recipes.stack.stack import Stack


def probe() -> Stack:
    """What is installed for this Python and which GPUs the driver shows; imports none of the packages."""
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
    """Whether the processor has AVX512-BF16; None where the system does not say, and on other families than x86."""
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as lines:
            # The first processor is enough, and the kernel makes this file slowly where there are hundreds.
            for line in lines:
                if line.startswith("flags"):
                    return "avx512_bf16" in line.split()
    except OSError:
        return None
    return None
