"""Parameters of very unequal size that ZeRO-3 gathers at once in two processes."""

import os
from pathlib import Path

LARGE, SMALL, TIMES = 4_000_000, 16, 20


def wrong_values(folder: Path, *, shim: bool) -> int:
    """In how many of some gathers the large parameter was not there yet when the call returned."""
    import deepspeed
    import torch

    from grpo_recipes.worker.shims import zero3_gathers

    if shim:
        zero3_gathers.before_trainer(True, None)  # type: ignore[arg-type]
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    os.environ["DS_ACCELERATOR"] = "cpu"
    deepspeed.init_distributed(dist_backend="gloo")
    with deepspeed.zero.Init(config_dict_or_path={"train_batch_size": 2, "zero_optimization": {"stage": 3}}):
        module = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(n)) for n in (LARGE, SMALL)])
    wrong = 0
    for _ in range(TIMES):
        parameters = list(module.parameters())
        parameters[0].all_gather(parameters)
        wrong += bool((parameters[0].detach() != 1).any())
        torch.distributed.barrier()
        parameters[0].partition(parameters)
    return wrong
