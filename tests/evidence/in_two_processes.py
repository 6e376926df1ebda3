"""One of two processes that train together: prints how long each of its process groups waits, in seconds.

in_two_processes.py HOW FOLDER: "trl" builds GRPOConfig alone, "worker" does so as the worker of a run.
"""

import json
import sys

import torch
from torch.distributed import distributed_c10d as c10d
from trl import GRPOConfig

from grpo_recipes.worker.trainer.model import wait_as_planned

if __name__ == "__main__":
    if sys.argv[1] == "worker":
        wait_as_planned({"ddp_timeout": 77})
    GRPOConfig(output_dir=sys.argv[2], use_cpu=True, ddp_timeout=77, bf16=False, report_to=[])
    torch.distributed.new_group([0, 1])  # as DeepSpeed and FSDP do
    groups = [group._get_backend(torch.device("cpu")) for group in c10d._world.pg_map]
    print(json.dumps([group.options._timeout.total_seconds() for group in groups]), flush=True)
