"""What evidence about the training arguments calls, in the process that has the libraries."""

import inspect
from types import SimpleNamespace
from typing import Any

import in_library


def optimizer(arguments: dict[str, Any], ranks: bool = False) -> dict[str, Any]:
    """Builds the Trainer's optimizer for a small model and steps it: its class, and how far it moved the weights.

    ranks: whether the arguments believe to be of a distributed run.
    """
    import torch
    from transformers import Trainer
    from transformers.training_args import ParallelMode, TrainingArguments

    if ranks:
        TrainingArguments.parallel_mode = property(lambda self: ParallelMode.DISTRIBUTED)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64))
    built, options = Trainer.get_optimizer_cls_and_kwargs(in_library._config(**arguments), model)
    in_library.STAGE[0] = "trainer"
    stepping = built(options.pop("params", None) or model.parameters(), **options)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    model(torch.ones(2, 64)).sum().backward()
    stepping.step()
    moved = sum(float((new - old).abs().sum()) for new, old in zip(model.parameters(), before, strict=True))
    known = inspect.signature(built).parameters
    return {"class": built.__name__, "moved": moved, "options": {k: str(options[k]) for k in options if k in known}}


def stand_in(module: str, **names: str) -> None:
    """Puts a module in the place of a package that is not installed; its classes are torch's AdamW."""
    import sys

    import torch

    class AdamW(torch.optim.AdamW):
        def __init__(self, params: Any, **options: Any) -> None:
            groups = [{"params": group["params"]} if isinstance(group, dict) else group for group in params]
            super().__init__(groups, lr=options.get("lr", 1e-3))

    sys.modules[module] = SimpleNamespace(**dict.fromkeys(names, AdamW))  # type: ignore[assignment]


def low_rank(arguments: dict[str, Any], ranks: bool = False) -> dict[str, Any]:
    """`optimizer` with a GaLore that is not GaLore: what transformers checks before it uses the package is its own."""
    from transformers import trainer_optimizer

    trainer_optimizer.is_galore_torch_available = lambda: True
    stand_in("galore_torch", GaLoreAdafactor="", GaLoreAdamW="", GaLoreAdamW8bit="")
    return optimizer(arguments, ranks=ranks)


def products(arguments: dict[str, Any]) -> dict[str, Any]:
    """Trains a step: the dtypes that a linear layer gave, and whether float32 may be rounded to TF32 for a product."""
    import torch

    dtypes: set[str] = set()
    trainer = in_library._trainer({"max_steps": 1, **arguments})
    layer = trainer.model.model.layers[0].mlp.up_proj
    layer.register_forward_hook(lambda module, given, out: dtypes.add(str(out.dtype)) if module.training else None)
    in_library.STAGE[0] = "train"
    trainer.train()
    return {"dtypes": sorted(dtypes), "tf32": torch.backends.cuda.matmul.allow_tf32}


def optimizer_words() -> dict[str, str]:
    """The source of the function that makes the optimizer of each word of `optim`."""
    from transformers.trainer_optimizer import _OPTIMIZER_HANDLERS

    return {str(getattr(word, "value", word)): inspect.getsource(made) for word, made in _OPTIMIZER_HANDLERS.items()}


def schedule(arguments: dict[str, Any], steps: int = 10) -> list[float]:
    """The learning rate of each step under the Trainer's schedule."""
    import torch
    from transformers import Trainer

    built = in_library._config(**arguments)
    in_library.STAGE[0] = "trainer"
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=built.learning_rate)
    trainer = SimpleNamespace(args=built, lr_scheduler=None, optimizer=optimizer)
    made = Trainer.create_scheduler(trainer, steps)
    rates = []
    for _ in range(steps):
        rates.append(float(made.get_last_lr()[0]))
        optimizer.step()
        made.step()
    return rates


def schedule_arguments() -> dict[str, list[str]]:
    """What each schedule takes beside what the Trainer passes."""
    from transformers.optimization import TYPE_TO_SCHEDULER_FUNCTION

    passed = {"optimizer", "num_warmup_steps", "num_training_steps", "last_epoch"}
    return {
        name.value: [taken for taken in inspect.signature(made).parameters if taken not in passed]
        for name, made in TYPE_TO_SCHEDULER_FUNCTION.items()
    }


def services() -> dict[str, str]:
    """What the Trainer's construction raises for each service, "" where it builds."""
    from transformers.integrations import get_reporting_integration_callbacks
    from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

    raised = {}
    for word in INTEGRATION_TO_CALLBACK:
        try:
            get_reporting_integration_callbacks([word])[0]()
        except Exception as error:
            raised[word] = str(error)
        else:
            raised[word] = ""
    return raised


def steps_of_a_resumed_optimizer(save_only_model: bool) -> int:
    """How many steps the optimizer counts after a run of one step and a second one from its checkpoint."""
    written = {"save_strategy": "steps", "save_steps": 1, "max_steps": 1, "learning_rate": 0.1, "optim": "adamw_torch"}
    first = in_library._trainer({**written, "save_only_model": save_only_model})
    first.train()
    second = in_library._trainer({**written, "max_steps": 2})
    second.train(resume_from_checkpoint=f"{first.args.output_dir}/checkpoint-1")
    return max(int(state["step"]) for state in second.optimizer.state.values())


def repository_name(arguments: dict[str, Any]) -> str:
    """The repository that the Trainer asks the hub for."""
    from transformers import Trainer, trainer

    asked: list[str] = []

    def create_repo(name: str, **options: Any) -> Any:
        asked.append(name)
        return SimpleNamespace(repo_id=name)

    trainer.hf_api = lambda: SimpleNamespace(create_repo=create_repo)
    args = in_library._config(push_to_hub=True, **arguments)
    Trainer.init_hf_repo(SimpleNamespace(args=args, is_world_process_zero=lambda: True))
    return asked[0]


def fsdp_plugin(torch_release: str) -> int:
    """The version of accelerate's FSDP plugin for FSDP2, built as with this release of torch."""
    from accelerate.utils import dataclasses, versions

    real = versions.compare_versions
    dataclasses.is_torch_version = lambda operation, wanted: real(versions.parse(torch_release), operation, wanted)
    return int(dataclasses.FullyShardedDataParallelPlugin(fsdp_version=2).fsdp_version)


def steps_of_exact_resumes(accumulation: int, feeds: int, iterations: int, steps: int) -> list[int]:
    """The steps after which a run can be interrupted and comes to the weights of one that was not, bit for bit."""
    import hashlib

    from transformers import set_seed

    arguments = {"gradient_accumulation_steps": accumulation, "steps_per_generation": feeds, "learning_rate": 0.01}
    arguments |= {"num_iterations": iterations, "max_steps": steps}
    parts = {"rows": [{"prompt": f"{n}+1="} for n in range(64)]}

    def weights(checkpoint: str | None) -> tuple[str, str]:
        set_seed(0)
        # A resumed run must not write over the checkpoints of the whole one.
        saves = {"save_strategy": "steps", "save_steps": 1} if checkpoint is None else {}
        trainer = in_library._trainer(arguments | saves, **parts)
        trainer.train(resume_from_checkpoint=checkpoint)
        numbers = b"".join(parameter.detach().numpy().tobytes() for parameter in trainer.model.parameters())
        return hashlib.sha256(numbers).hexdigest(), trainer.args.output_dir

    whole, folder = weights(None)
    return [step for step in range(1, steps) if weights(f"{folder}/checkpoint-{step}")[0] == whole]
