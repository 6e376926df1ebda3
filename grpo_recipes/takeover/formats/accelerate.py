"""An accelerate file: processes, strategy, precision."""

import os
from collections.abc import Mapping

from grpo_recipes.takeover.basis.context import Situation
from grpo_recipes.takeover.basis.draft import Given
from grpo_recipes.takeover.basis.read import WORDS, table_of
from grpo_recipes.takeover.formats.deepspeed import take_deepspeed, take_offload, take_stage

STRATEGY = "distributed.strategy"
PROCESSES = "launch.num_processes"
GPUS = "launch.gpus_per_node"
TYPES = {"NO": "single", "MULTI_GPU": "ddp", "MULTI_CPU": "ddp", "FSDP": "fsdp2", "DEEPSPEED": ""}
UNREAD = "accelerate ignores this key; write it under distributed.deepspeed if you want it"
# Keys that accelerate reads only with one version of FSDP and otherwise ignores.
OF_VERSION = {"fsdp_sharding_strategy": 1, "fsdp_reshard_after_forward": 2}
FSDP_KEYS = {
    "fsdp_sharding_strategy": "distributed.fsdp.reshard_after_forward",
    "fsdp_reshard_after_forward": "distributed.fsdp.reshard_after_forward",
    "fsdp_cpu_ram_efficient_loading": "distributed.fsdp.cpu_ram_efficient_loading",
}
SHARDING = {"full_shard": True, "1": True, "shard_grad_op": False, "2": False}
WITHOUT_FSDP = {"trl": "<0.18"}
NO_FSDP = "GRPOTrainer of trl before 0.18 does not gather what FSDP shards, and generates with parts of it; zero3 works"
MACHINES = "launch.num_nodes"


def take_accelerate(situation: Situation, file: Given, folder: str) -> None:
    """Takes over all keys of an accelerate file. folder: of the file, for a DeepSpeed file that it names."""
    _machine(situation, file)
    _strategy(situation, file, folder)
    _precision(situation, file)
    for name in list(file.values):
        file.answer(name, table_of("accelerate")["answers"].get(name))


def _machine(situation: Situation, file: Given) -> None:
    machines = _machines(situation, file)
    for name in ("main_process_ip", "main_process_port"):
        said = file.values.get(name)
        if machines > 1 and isinstance(said, int if name == "main_process_port" else str):
            file.mapped(name, f"launch.{name}", said)
    if "num_processes" in file:
        _processes(situation, file, machines)
    if file.values.get("use_cpu") is True:
        file.mapped("use_cpu", GPUS, 0)
    elif "use_cpu" in file:
        file.mapped("use_cpu", None)
    if "gpu_ids" in file:
        if file.values["gpu_ids"] == "all":
            file.mapped("gpu_ids", None)
        else:
            ids = str(file.values["gpu_ids"])
            file.emulated(
                "gpu_ids", None, None, f"it belongs to the machine: start grpo-run with CUDA_VISIBLE_DEVICES={ids}"
            )


def _machines(situation: Situation, file: Given) -> int:
    """The number of machines that train. If the run starts a vLLM server, a recipe also counts the server's."""
    said = file.values.get("num_machines", 1)
    if said in (1, "1") and not isinstance(said, bool):
        if "num_machines" in file:
            file.mapped("num_machines", None)
        return 1
    if not isinstance(said, int) or isinstance(said, bool) or said < 1:
        file.refused("num_machines", "it must be a number of machines", MACHINES)
        return 1
    if situation.starts_server:
        file.emulated("num_machines", MACHINES, said + 1, "one more, for the vLLM server")
    else:
        file.mapped("num_machines", MACHINES, said)
    return said


def _processes(situation: Situation, file: Given, machines: int) -> None:
    """Takes over one process per GPU; without GPUs, only the number of processes."""
    processes = file.values["num_processes"]
    on_cpu = file.values.get("use_cpu") is True or file.values.get("distributed_type") == "MULTI_CPU"
    if any(isinstance(situation.draft.values.get(where), int) for where in (PROCESSES, GPUS)):
        file.emulated("num_processes", None, None, "it is already set")
    elif not isinstance(processes, int) or processes < 1:
        file.refused("num_processes", "it must be a number of processes", PROCESSES)
    elif processes % machines:
        file.refused("num_processes", f"{machines} machines cannot have the same number of them", PROCESSES)
    elif on_cpu:
        file.mapped("num_processes", PROCESSES, processes)
    elif machines == 1 and situation.server_gpus:
        beside = f"one process on each GPU, plus {situation.server_gpus} for the vLLM server"
        file.emulated("num_processes", GPUS, processes + situation.server_gpus, beside)
    elif machines == 1:
        file.mapped("num_processes", GPUS, processes, "one process on each GPU")
    else:
        each = f"one process on each GPU of {machines} machines"
        file.mapped("num_processes", GPUS, processes // machines, each)


def _strategy(situation: Situation, file: Given, folder: str) -> None:
    kind = str(file.values.get("distributed_type", "")).upper()
    if "distributed_type" in file:
        if TYPES.get(kind):
            _plain_strategy(situation, file, kind)
        elif kind in TYPES:
            file.told("distributed_type", "mapped", STRATEGY, "zero1 to zero3 are DeepSpeed's stages")
        else:
            file.refused("distributed_type", "the strategies are single, ddp, zero1 to zero3 and fsdp2", STRATEGY)
    if isinstance(file.values.get("deepspeed_config"), Mapping):
        _deepspeed_block(situation, file, folder)
    if isinstance(file.values.get("fsdp_config"), Mapping):
        _fsdp_block(situation, file)


def _fsdp_block(situation: Situation, file: Given) -> None:
    """Takes over the FSDP keys that accelerate reads with the given version; none if FSDP is not the strategy."""
    version, is_used = _fsdp_version(file), situation.draft.values.get(STRATEGY) == "fsdp2"
    inside = file.inside("fsdp_config")
    if not inside.values:
        file.mapped("fsdp_config", None)
    for name in list(inside.values):
        value = (SHARDING if name == "fsdp_sharding_strategy" else WORDS).get(str(inside.values[name]).lower())
        if name in FSDP_KEYS and not is_used:
            inside.emulated(name, None, None, "without FSDP nothing reads it")
        elif OF_VERSION.get(name, version) != version:
            inside.emulated(name, None, None, f"accelerate only reads it with fsdp_version {OF_VERSION[name]}")
        elif name in FSDP_KEYS and value is not None:
            inside.mapped(name, None if value else FSDP_KEYS[name], value)
        else:
            inside.answer(name, table_of("accelerate")["fsdp"].get(name), table_of("accelerate")["fsdp_anyway"])


def _plain_strategy(situation: Situation, file: Given, kind: str) -> None:
    """Takes over a strategy other than DeepSpeed's. FSDP's first version is not equivalent to fsdp2."""
    is_first = kind == "FSDP" and _fsdp_version(file) == 1
    if is_first and situation.release.is_in(WITHOUT_FSDP):
        file.refused("distributed_type", NO_FSDP, STRATEGY)
    elif is_first:
        file.emulated("distributed_type", STRATEGY, TYPES[kind], "fully sharded too")
    else:
        file.mapped("distributed_type", STRATEGY, TYPES[kind])


def _fsdp_version(file: Given) -> int:
    block = file.values.get("fsdp_config")
    return 2 if isinstance(block, Mapping) and block.get("fsdp_version") in (2, "2") else 1


def _deepspeed_block(situation: Situation, file: Given, folder: str) -> None:
    """Takes over accelerate's own DeepSpeed keys, or the DeepSpeed file that it names."""
    inside = file.inside("deepspeed_config")
    if not inside.values:
        file.mapped("deepspeed_config", None)
    if "deepspeed_config_file" in inside:
        path = os.path.join(folder, str(inside.values["deepspeed_config_file"]))
        if os.path.isfile(path):
            inside.mapped("deepspeed_config_file", None, because="its own keys follow")
            take_deepspeed(situation, path)
        else:
            inside.refused("deepspeed_config_file", "it is not next to this file: add --deepspeed FILE", "distributed")
    take_stage(inside, "zero_stage")
    for part in ("offload_optimizer", "offload_param"):
        take_offload(inside, f"{part}_device", part)
    for name in list(inside.values):
        inside.answer(name, table_of("accelerate")["answers"].get(name), UNREAD)


def _precision(situation: Situation, file: Given) -> None:
    """Takes over accelerate's precision if the training configuration sets none."""
    if "mixed_precision" not in file:
        return
    word = file.values["mixed_precision"]
    values = situation.draft.values
    told = {name: situation.value(name) for name in ("bf16", "fp16")}
    if word in ("no", False, None):
        file.mapped("mixed_precision", None, because="training.bf16 and training.fp16 set it")
    elif str(word) not in told:
        file.refused("mixed_precision", "a recipe trains in float32, bfloat16 or float16", "training.bf16")
    elif told[str(word)] in (True, "true"):
        file.mapped("mixed_precision", None, because=f"training.{word} sets it")
    elif True in told.values() or any(f"training.{name}" in values for name in told):
        file.emulated("mixed_precision", None, None, "the training configuration's own value wins")
    else:
        file.emulated(
            "mixed_precision",
            f"training.{word}",
            True,
            "the training configuration does not set it, so this value counts",
        )
        situation.given.taken[str(word)] = True
