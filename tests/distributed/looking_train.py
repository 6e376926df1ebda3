"""Put in the place of worker/train.py: trains as that does, and writes what each rank holds when the steps are done.

timeouts-<rank>.json of the run folder: the seconds that each process group waits. parameters-<rank>.json: for each
parameter how many numbers it has, how many of them lie in this process outside of a shard, and how many are in its
shard. fsdp-<rank>.json: accelerate's settings of FSDP2, and how many layers give up their whole weights after their
forward pass. dtypes-<rank>.json: the dtypes that the first projection gave while completions were made, while they were
scored, and in the loss.
"""

import json
import traceback
from pathlib import Path
from typing import Any

import torch
from accelerate.state import AcceleratorState
from torch.distributed import distributed_c10d
from torch.distributed.fsdp import FSDPModule
from transformers import TrainerCallback, trainer

from grpo_recipes.worker.run import train
from grpo_recipes.worker.survival.interruption import leave

FOLDER = Path(__file__).resolve().parent.parent


class Looking(TrainerCallback):  # type: ignore[misc]
    """Looks at the live model, most of all after the last step."""

    def __init__(self) -> None:
        self.dtypes: dict[str, set[str]] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Notes dtypes from now on."""
        named = kwargs["model"].named_modules()
        next(module for name, module in named if name.endswith("q_proj")).register_forward_hook(self._note)

    def _note(self, _: Any, __: Any, output: torch.Tensor) -> None:
        callers = {frame.name for frame in traceback.extract_stack()}
        phase = "generation" if "generate" in callers else "loss" if torch.is_grad_enabled() else "scores"
        self.dtypes.setdefault(phase, set()).add(str(output.dtype).removeprefix("torch."))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Writes the file of this rank."""
        held = {
            name: {
                "whole": getattr(parameter, "ds_numel", parameter.numel()),
                "here": 0 if hasattr(parameter, "to_local") else parameter.numel(),
                "shard": _shard(parameter),
                "trained": parameter.requires_grad,
            }
            for name, parameter in kwargs["model"].named_parameters()
        }
        (FOLDER / f"parameters-{args.process_index}.json").write_text(json.dumps(held))
        dtypes = {phase: sorted(found) for phase, found in self.dtypes.items()}
        (FOLDER / f"dtypes-{args.process_index}.json").write_text(json.dumps(dtypes))
        plugin = AcceleratorState().fsdp_plugin if isinstance(kwargs["model"], FSDPModule) else None
        if plugin is not None:
            names = ("reshard_after_forward", "cpu_ram_efficient_loading")
            layers = [layer for layer in kwargs["model"].modules() if isinstance(layer, FSDPModule)]
            groups = [group for layer in layers for group in layer._get_fsdp_state()._fsdp_param_groups]
            reshards = [group._reshard_after_forward for group in groups]
            seen = {name: getattr(plugin, name) for name in names} | {"layers_that_reshard": sum(reshards)}
            (FOLDER / f"fsdp-{args.process_index}.json").write_text(json.dumps(seen))
        groups = [group._get_backend(torch.device("cpu")) for group in distributed_c10d._world.pg_map]
        seconds = [group.options._timeout.total_seconds() for group in groups]
        (FOLDER / f"timeouts-{args.process_index}.json").write_text(json.dumps(seconds))


def _shard(parameter: Any) -> int | None:
    """How many numbers of a parameter ZeRO-3 or FSDP2 leave in this process, None where nothing cuts it."""
    if hasattr(parameter, "to_local"):
        return int(parameter.to_local().numel())
    return int(parameter.ds_tensor.numel()) if hasattr(parameter, "ds_tensor") else None


if __name__ == "__main__":
    trainer.DEFAULT_CALLBACKS.append(Looking)
    leave(train(FOLDER, resume=False))
