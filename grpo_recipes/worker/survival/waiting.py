"""How long the processes of the run wait for each other."""

from datetime import timedelta
from typing import Any

from torch.distributed import distributed_c10d


def wait_as_planned(arguments: dict[str, Any]) -> None:
    """Gives every process group that is made from here on the planned ddp_timeout, unless its maker says another.

    transformers 5.23 hands ddp_timeout on for GPUs alone, and for the first group alone: DeepSpeed makes a copy of
    that one, FSDP's mesh its own, both with torch's default of 10 minutes for NCCL and 30 for gloo.
    Source: torch 2.13.0 distributed_c10d.py `_get_default_timeout`, of which every release since 2.6 is.
    """
    seconds = arguments.get("ddp_timeout")
    if seconds is not None:
        distributed_c10d.default_pg_timeout = timedelta(seconds=seconds)
        distributed_c10d.default_pg_nccl_timeout = timedelta(seconds=seconds)
