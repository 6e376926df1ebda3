"""Small models under the real DeepSpeed, one rank on the CPU, in the process that has the libraries."""

import os
import socket
import sys
from collections.abc import Callable
from typing import Any, ClassVar


class Watched(dict):  # type: ignore[type-arg]
    """A configuration that notes which of its keys are looked for."""

    looked_for: ClassVar[set[str]] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.looked_for.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.looked_for.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.looked_for.add(str(key))
        return super().__contains__(key)

    def keys(self) -> Any:
        return self

    def __copy__(self) -> "Watched":
        return Watched(self)


def config_keys(config: dict[str, Any]) -> dict[str, list[str]]:
    """The top-level keys that DeepSpeedConfig looks for, and the fields of its ZeRO classes with their aliases."""
    from deepspeed.runtime.config import DeepSpeedConfig
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
    from deepspeed.runtime.zero.offload_config import (
        DeepSpeedZeroOffloadOptimizerConfig,
        DeepSpeedZeroOffloadParamConfig,
    )

    DeepSpeedConfig(Watched(config))
    sections = {
        "zero_optimization": DeepSpeedZeroConfig,
        "offload_param": DeepSpeedZeroOffloadParamConfig,
        "offload_optimizer": DeepSpeedZeroOffloadOptimizerConfig,
    }
    fields = {
        name: sorted(set(section.model_fields) | {f.alias for f in section.model_fields.values() if f.alias})
        for name, section in sections.items()
    }
    precisions = {name: value_kinds()[name]["fields"] for name in ("bf16", "fp16")}
    return {"top": sorted(Watched.looked_for), **fields, **precisions}


def value_kinds() -> dict[str, dict[str, Any]]:
    """Of each section with a class: its fields with their aliases, and what plain fields hold.

    kinds: field -> [kind, smallest, greatest, whether null is taken]; a field of another kind is left out.
    """
    from typing import get_args

    from deepspeed.runtime.precision_config import DeepSpeedBF16Config, DeepSpeedFP16Config
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
    from deepspeed.runtime.zero.offload_config import (
        DeepSpeedZeroOffloadOptimizerConfig,
        DeepSpeedZeroOffloadParamConfig,
    )

    sections = {
        "zero_optimization": DeepSpeedZeroConfig,
        "offload_param": DeepSpeedZeroOffloadParamConfig,
        "offload_optimizer": DeepSpeedZeroOffloadOptimizerConfig,
        "bf16": DeepSpeedBF16Config,
        "fp16": DeepSpeedFP16Config,
    }
    plain = {bool: "bool", int: "int", float: "float"}
    found: dict[str, dict[str, Any]] = {}
    for section, model in sections.items():
        kinds, fields = {}, set()
        for name, field in model.model_fields.items():
            fields |= {name} | ({field.alias} if field.alias else set())
            members = set(get_args(field.annotation) or (field.annotation,))
            kind = next((plain[member] for member in plain if member in members), None)
            if kind is None:
                continue
            bounds = {key: value for one in field.metadata for key, value in vars_of(one).items()}
            least = bounds.get("ge", bounds["gt"] + 1 if "gt" in bounds else None)
            for key in {name, field.alias or name}:
                kinds[key] = [kind, least, bounds.get("le"), type(None) in members]
        found[section] = {"fields": sorted(fields), "kinds": kinds}
    return found


def vars_of(bound: Any) -> dict[str, Any]:
    """The bounds that an annotation of a field holds."""
    return {key: getattr(bound, key) for key in ("ge", "gt", "le") if getattr(bound, key, None) is not None}


def built(section: str, values: dict[str, Any]) -> str:
    """Builds a section's class with these values."""
    from deepspeed.runtime.precision_config import DeepSpeedBF16Config, DeepSpeedFP16Config
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig

    models = {"zero_optimization": DeepSpeedZeroConfig, "bf16": DeepSpeedBF16Config, "fp16": DeepSpeedFP16Config}
    return type(models[section](**values)).__name__


def filled(configs: list[dict[str, Any]]) -> list[str]:
    """What accelerate raises for each file when it fills it in for the Trainer, "" for nothing."""
    from accelerate.utils import DeepSpeedPlugin
    from transformers import TrainingArguments
    from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig

    arguments = TrainingArguments(output_dir="out", use_cpu=True)
    auto = {"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto"}
    size = {"reduce_bucket_size": 1, "stage3_prefetch_bucket_size": 1, "stage3_param_persistence_threshold": 1}
    sizes = {f"zero_optimization.{name}": value for name, value in size.items()}
    raised = []
    for config in configs:
        known = HfTrainerDeepSpeedConfig({**auto, **config})
        known.trainer_config_process(arguments)
        plugin = DeepSpeedPlugin(hf_ds_config=known)
        batches = {"train_batch_size": 1, "train_micro_batch_size_per_gpu": 1}
        try:
            plugin.deepspeed_config_process(must_match=False, gradient_clipping=1.0, **batches, **sizes)
        except ValueError as error:
            raised.append(str(error))
        else:
            raised.append("")
    return raised


def read_in_a_step(config: dict[str, Any]) -> list[str]:
    """The fields of the ZeRO section that DeepSpeed reads when it makes its engine and steps."""
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig

    names, read = set(DeepSpeedZeroConfig.model_fields), set()
    plain = DeepSpeedZeroConfig.__getattribute__

    def noting(self: Any, name: str) -> Any:
        if name in names and sys._getframe(1).f_code.co_filename.partition("site-packages/")[2].startswith("deepspeed"):
            read.add(name)
        return plain(self, name)

    DeepSpeedZeroConfig.__getattribute__ = noting
    step(config)
    return sorted(read)


def step(config: dict[str, Any]) -> dict[str, Any]:
    """One step of a linear layer with SGD: its loss, its weights after it, their dtype."""
    import deepspeed
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4)
    batch = {"train_micro_batch_size_per_gpu": 1, "zero_allow_untested_optimizer": True}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config={**batch, **config})
    loss = engine(torch.ones(1, 4, dtype=next(engine.parameters()).dtype)).sum()
    engine.backward(loss)
    engine.step()
    parameter = next(model.parameters())
    return {"loss": float(loss), "weight": float(parameter.detach().float().sum()), "dtype": str(parameter.dtype)}


def loaded_dtype(config: dict[str, Any], model: str, dtype: str) -> str:
    """The dtype of a model that transformers loads under ZeRO-3."""
    from transformers import AutoModelForCausalLM
    from transformers.integrations import HfDeepSpeedConfig

    kept = HfDeepSpeedConfig({"train_micro_batch_size_per_gpu": 1, **config})
    loaded = AutoModelForCausalLM.from_pretrained(model, dtype=dtype)
    del kept
    return str({parameter.dtype for parameter in loaded.parameters()})


def mapped_optimizer(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """What accelerate puts in the place of a torch optimizer when its states are offloaded: class and options.

    DeepSpeedCPUAdam compiles when it is built, so a class that notes its options stands for it.
    """
    import deepspeed.ops.adam
    import torch
    from accelerate.utils.deepspeed import map_pytorch_optim_to_deepspeed

    class DeepSpeedCPUAdam:
        def __init__(self, groups: Any, **given: Any) -> None:
            self.given = given

    deepspeed.ops.adam.DeepSpeedCPUAdam = DeepSpeedCPUAdam
    optimizer = getattr(torch.optim, name)([torch.nn.Parameter(torch.ones(1))], **options)
    found = map_pytorch_optim_to_deepspeed(optimizer)
    return {"class": type(found).__name__, "options": found.given}


def for_trainer(config: dict[str, Any]) -> str:
    """The class of the optimizer that transformers' Trainer prepares beside a file; "own" when it is the Trainer's."""
    from types import SimpleNamespace

    import torch
    from transformers import TrainingArguments
    from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig, deepspeed_optim_sched

    arguments = TrainingArguments(output_dir="out", use_cpu=True, per_device_train_batch_size=4, max_grad_norm=0.5)
    auto = {"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto"}
    known = HfTrainerDeepSpeedConfig({**auto, **config})
    known.trainer_config_process(arguments)
    known.trainer_config_finalize(arguments, SimpleNamespace(config=SimpleNamespace(hidden_size=64)), 10)
    trainer = SimpleNamespace(create_optimizer=lambda: "own")
    optimizer, _ = deepspeed_optim_sched(trainer, known, arguments, 10, [torch.nn.Parameter(torch.ones(1))])
    return optimizer if isinstance(optimizer, str) else type(optimizer).__name__


def merged_while_gathered() -> list[bool]:
    """Whether weights hold an addition made while ZeRO-3 had them gathered: then, and when it gathers them again."""
    import deepspeed
    import torch

    deepspeed.init_distributed(dist_backend="gloo")
    with deepspeed.zero.Init(config_dict_or_path={"train_batch_size": 1, "zero_optimization": {"stage": 3}}):
        layer = torch.nn.Linear(8, 8, bias=False)
    found = []
    with deepspeed.zero.GatheredParameters([layer.weight]):
        before = layer.weight.detach().clone()
        layer.weight.data += 1
        found.append(not torch.equal(layer.weight, before))
    with deepspeed.zero.GatheredParameters([layer.weight]):
        return [*found, not torch.equal(layer.weight, before)]


CALLS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (merged_while_gathered, config_keys, step, loaded_dtype, mapped_optimizer, for_trainer)
} | {f.__name__: f for f in (value_kinds, built, filled, read_in_a_step)}


def answered(call: str, arguments: dict[str, Any], extensions: str) -> Any:
    """What a function of this file returns in a world of one rank. extensions: where DeepSpeed would compile."""
    import deepspeed

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    os.environ["TORCH_EXTENSIONS_DIR"] = extensions
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    return CALLS[call](**arguments)
