"""A machine whose torch is built for GPUs of another maker is told that its run is on the CPU.

grpo-run plans for NVIDIA GPUs, which nvidia-smi shows, and for processors. Beside a torch for AMD (`+rocm`) or Intel
(`+xpu`) it finds no GPU, so that `launch.gpus_per_node: auto` is the CPU, hundreds of times slower. Nothing was run on
such GPUs. `gpus_per_node: 0` says that the CPU is meant.
"""

import re
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context

ID = "WLD009"
GPUS = "launch.gpus_per_node"
MAKERS = {"rocm": "AMD", "xpu": "Intel"}


def check(context: Context) -> Iterator[Finding]:
    version = context.stack.version("torch") or ""
    built = re.search(r"\+(rocm|xpu)", version)
    if built is None or context.value(GPUS) != "auto" or context.value("world.device") != "cpu":
        return
    yield context.finding(
        ID,
        f"this run is on the CPU, and torch {version} is built for GPUs of {MAKERS[built[1]]}",
        GPUS,
        because=["grpo-run plans for NVIDIA GPUs alone", context.settings["world.device"].why],
        fix="gpus_per_node: 0, which says that the CPU is meant",
        patch=[Patch(("launch", "gpus_per_node"), 0)],
        severity="warning",
    )
