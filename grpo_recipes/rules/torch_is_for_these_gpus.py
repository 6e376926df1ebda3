"""torch is built for NVIDIA GPUs or for the CPU.

grpo-run plans for NVIDIA GPUs, which nvidia-smi shows, and for CPUs. With a torch for AMD (`+rocm`) or Intel (`+xpu`)
it finds no GPU, so `launch.gpus_per_node: auto` means the CPU, hundreds of times slower, and the rule warns. grpo-run
was never tested on these GPUs. Write `gpus_per_node: 0` to use the CPU on purpose.
"""

import re
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "WLD009"
GPUS = "launch.gpus_per_node"
MAKERS = {"rocm": "AMD", "xpu": "Intel"}


def check(context: Context) -> Iterator[Finding]:
    version = context.stack.version("torch") or ""
    built = re.search(r"\+(rocm|xpu)", version)
    if built is None or context.value(GPUS) != "auto" or context.value("world.device") != "cpu":
        return
    message = f"this run is on the CPU, but torch {version} is built for {MAKERS[built[1]]} GPUs"
    because = ["grpo-run supports only NVIDIA GPUs", context.settings["world.device"].why]
    yield context.wrong(message, GPUS, because, 0, fix="gpus_per_node: 0 to use the CPU on purpose", severity="warning")
