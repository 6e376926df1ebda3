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


def checkpointed_step(environment: dict[str, str], ranks: int, *, reentrant: bool, unused: bool) -> list[Any]:
    """What a backward pass raises in each rank, "" for nothing: checkpointing as asked, in torch's DDP."""

    def backward() -> str:
        import torch
        from transformers import AutoModelForCausalLM

        torch.distributed.init_process_group("gloo")
        model = AutoModelForCausalLM.from_pretrained(in_library.FOLDER / "model", dtype=torch.float32).train()
        model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        model.enable_input_require_grads()
        spread = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=unused)
        try:
            spread(input_ids=torch.arange(8).reshape(2, 4)).logits.sum().backward()
        except RuntimeError as error:
            return str(error)
        return ""

    return in_library.in_ranks(backward, environment, ranks)


def sharded_steps(environment: dict[str, str], words: list[str]) -> dict[str, str]:
    """What the first step of each optimizer raises, "" for nothing: of a layer that FSDP2 shards for one rank."""

    def steps() -> dict[str, str]:
        import torch
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        from transformers import Trainer

        torch.distributed.init_process_group("gloo")
        mesh, raised = init_device_mesh("cpu", (1,)), {}
        for word in words:
            layer = torch.nn.Linear(128, 128)
            fully_shard(layer, mesh=mesh)
            kind, keywords = Trainer.get_optimizer_cls_and_kwargs(in_library._config(optim=word))
            optimizer = kind(layer.parameters(), **keywords)
            layer(torch.ones(2, 128)).sum().backward()
            try:
                optimizer.step()
            except (RuntimeError, NotImplementedError) as error:
                raised[word] = f"{type(error).__name__}: {error}"
            else:
                raised[word] = ""
        return raised

    (answer,) = in_library.in_ranks(steps, environment, 1)
    return dict(answer)
