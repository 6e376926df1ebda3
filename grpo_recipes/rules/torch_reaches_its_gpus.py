"""The installed torch reaches the GPUs: it is built for a CUDA that the driver runs.

PyPI's torch is for one CUDA: 12.8 up to torch 2.10, 13.0 from 2.11 on. CUDA 13 needs a driver of 580 or newer, CUDA 12
one of 525, CUDA 11 one of 450. With an older driver, and with a torch for the CPU, nvidia-smi shows GPUs of which torch
sees none, and a run ends after its imports or when its model is loaded. Where NVIDIA's forward compatibility puts a
newer libcuda before the driver's, the driver says nothing, and nothing is judged.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.of_the_gpu import DRIVER, torch_and_driver

ID = DRIVER


def check(context: Context) -> Iterator[Finding]:
    found = torch_and_driver(context.stack)
    if found is not None and context.value("world.device") == "cuda":
        yield context.finding(ID, found.message, "launch.gpus_per_node", because=found.because, fix=found.fix)
