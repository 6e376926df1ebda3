"""What evidence about several ranks calls, in the process that has the libraries."""

from types import SimpleNamespace
from typing import Any

import in_library

ROWS, TOKENS = 8, 6


def waits(how: str, folder: str, environment: dict[str, str]) -> list[Any]:
    """How long each process group of two ranks waits, in seconds: the first, and one made afterwards.

    how: "trl" builds GRPOConfig alone, "worker" does so as the worker of a run.
    """

    def seconds() -> list[float]:
        import torch
        from torch.distributed import distributed_c10d as c10d
        from trl import GRPOConfig

        from grpo_recipes.worker.model.build_trainer import wait_as_planned

        if how == "worker":
            wait_as_planned({"ddp_timeout": 77})
        GRPOConfig(output_dir=folder, use_cpu=True, ddp_timeout=77, bf16=False, report_to=[])
        torch.distributed.new_group([0, 1])  # as DeepSpeed and FSDP do
        groups = [group._get_backend(torch.device("cpu")) for group in c10d._world.pg_map]
        return [group.options._timeout.total_seconds() for group in groups]

    return in_library.in_ranks(seconds, environment, 2)


def marked_entropies(environment: dict[str, str], ranks: int) -> list[Any]:
    """The tokens of high entropy, as TRL marks them in each of several ranks: the rows of each rank."""

    def marked() -> Any:
        import torch
        from accelerate import Accelerator
        from trl import GRPOTrainer

        accelerator = Accelerator(cpu=True)
        torch.manual_seed(0)
        entropies = torch.rand(ROWS, TOKENS)
        entropies[0] += 3  # so the halves differ
        mask = torch.tensor([[int(token < TOKENS - row % 5) for token in range(TOKENS)] for row in range(ROWS)])
        size = ROWS // accelerator.num_processes
        own = slice(accelerator.process_index * size, (accelerator.process_index + 1) * size)
        trainer = SimpleNamespace(accelerator=accelerator)
        return GRPOTrainer.get_high_entropy_mask(trainer, entropies[own], mask[own], 0.7).int().tolist()

    return in_library.in_ranks(marked, environment, ranks)
