"""The installed torch can use the GPUs, because the driver supports its CUDA version.

PyPI's torch is built for one CUDA version: 12.8 up to torch 2.10, and 13.0 since 2.11. CUDA 13 needs driver 580 or
newer, CUDA 12 driver 525, and CUDA 11 driver 450. With an older driver, or a torch for the CPU, nvidia-smi shows GPUs
but torch sees none, and a run ends after its imports or when it loads its model. If NVIDIA's forward compatibility puts
a newer libcuda before the driver's, the driver's version is meaningless, and the rule does not check it.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.fitting import DRIVER, torch_and_driver

ID = DRIVER


def check(context: Context) -> Iterator[Finding]:
    problem = torch_and_driver(context.stack)
    if problem is not None and context.value("world.device") == "cuda":
        yield context.finding(problem.message, "launch.gpus_per_node", problem.because, fix=problem.fix)
