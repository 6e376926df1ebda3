"""An accelerate file: processes, strategy, precision. data/accelerate.json decides its other keys."""

from collections.abc import Mapping

from grpo_recipes.takeover.basis.context import Situation
from grpo_recipes.takeover.basis.draft import Given
from grpo_recipes.takeover.basis.read import table_of
from grpo_recipes.takeover.basis.trl_values import WORDS
from grpo_recipes.takeover.formats.deepspeed import take_deepspeed

STRATEGY = "distributed.strategy"
PROCESSES = "launch.num_processes"
GPUS = "launch.gpus_per_node"
WITHOUT_FSDP = {"trl": "<0.18"}
NO_FSDP = "GRPOTrainer of trl before 0.18 does not gather what FSDP shards, and generates with parts of it; zero3 works"
MACHINES = "launch.num_nodes"


def take_accelerate(situation: Situation, file: Given, folder: str) -> None:
    """Takes over all keys of an accelerate file. folder: of the file, for a DeepSpeed file that it names."""
    machines = _machines(situation, file)
    for name, kind in (("main_process_ip", str), ("main_process_port", int)):
        if machines > 1 and isinstance(value := file.values.get(name), kind):
            file.map_key(name, f"launch.{name}", value)
    if "num_processes" in file:
        _processes(situation, file, machines)
    if "distributed_type" in file:
        _strategy(situation, file)
    if isinstance(file.values.get("deepspeed_config"), Mapping):
        _deepspeed_block(situation, file, folder)
    if isinstance(file.values.get("fsdp_config"), Mapping):
        _fsdp_block(situation, file)
    if "mixed_precision" in file:
        _precision(situation, file)
    file.answers(table_of("accelerate")["answers"])


def _machines(situation: Situation, file: Given) -> int:
    """The number of machines that train. If the run starts a vLLM server, a recipe also counts the server's."""
    machines = file.values.get("num_machines", 1)
    if isinstance(machines, bool) or not (machines == "1" or (isinstance(machines, int) and machines > 0)):
        file.refuse_key("num_machines", "it must be a number of machines", MACHINES)
    elif machines not in (1, "1"):
        if situation.starts_server:
            file.emulate_key("num_machines", "one more, for the vLLM server", MACHINES, int(machines) + 1)
        else:
            file.map_key("num_machines", MACHINES, machines)
        return int(machines)
    elif "num_machines" in file:
        file.map_key("num_machines")
    return 1


def _processes(situation: Situation, file: Given, machines: int) -> None:
    """Takes over one process per GPU; without GPUs, only the number of processes."""
    processes, servers = file.values["num_processes"], situation.server_gpus
    if any(isinstance(situation.draft.values.get(where), int) for where in (PROCESSES, GPUS)):
        file.emulate_key("num_processes", "it is already set")
    elif not isinstance(processes, int) or isinstance(processes, bool) or processes < 1:
        file.refuse_key("num_processes", "it must be a number of processes", PROCESSES)
    elif processes % machines:
        file.refuse_key("num_processes", f"{machines} machines cannot have the same number of them", PROCESSES)
    elif file.values.get("use_cpu") is True or file.values.get("distributed_type") == "MULTI_CPU":
        file.map_key("num_processes", PROCESSES, processes)
    elif machines == 1 and servers:
        beside = f"one process on each GPU, plus {servers} for the vLLM server"
        file.emulate_key("num_processes", beside, GPUS, processes + servers)
    else:
        each = f"one process on each GPU{f' of {machines} machines' if machines > 1 else ''}"
        file.map_key("num_processes", GPUS, processes // machines, each)


def _strategy(situation: Situation, file: Given) -> None:
    """Takes over the strategy. FSDP's first version is not equivalent to fsdp2."""
    kind = str(file.values["distributed_type"]).upper()
    strategy = table_of("accelerate")["types"].get(kind)
    is_first = kind == "FSDP" and _fsdp_version(file) == 1
    if kind == "DEEPSPEED":
        file.add_row("distributed_type", "mapped", STRATEGY, "zero1 to zero3 are DeepSpeed's stages")
    elif strategy is None:
        file.refuse_key("distributed_type", "the strategies are single, ddp, zero1 to zero3 and fsdp2", STRATEGY)
    elif is_first and situation.release.is_in(WITHOUT_FSDP):
        file.refuse_key("distributed_type", NO_FSDP, STRATEGY)
    elif is_first:
        file.emulate_key("distributed_type", "fully sharded too", STRATEGY, strategy)
    else:
        file.map_key("distributed_type", STRATEGY, strategy)


def _fsdp_version(file: Given) -> int:
    block = file.values.get("fsdp_config")
    return 2 if isinstance(block, Mapping) and block.get("fsdp_version") in (2, "2") else 1


def _fsdp_block(situation: Situation, file: Given) -> None:
    """Takes over the FSDP keys that accelerate reads with the given version; none if FSDP is not the strategy.

    home: the recipe key, by default true. words: its values. version: the only one with which accelerate reads a key.
    """
    version, is_used = _fsdp_version(file), situation.draft.values.get(STRATEGY) == "fsdp2"
    table = table_of("accelerate")
    inside = file.inside("fsdp_config")
    if not inside.values:
        file.map_key("fsdp_config")
    for name, value in list(inside.values.items()):
        entry = table["fsdp"].get(name, table["fsdp_anyway"])
        home, read_with = entry.get("home"), entry.get("version", version)
        is_on = entry.get("words", WORDS).get(str(value).lower())
        if home and not is_used:
            inside.emulate_key(name, "without FSDP nothing reads it")
        elif read_with != version:
            inside.emulate_key(name, f"accelerate only reads it with fsdp_version {read_with}")
        elif home and is_on is not None:
            inside.map_key(name, "" if is_on else home, is_on)
        else:
            inside.answer(name, {**entry, "home": ""})


def _deepspeed_block(situation: Situation, file: Given, folder: str) -> None:
    """Takes over accelerate's own DeepSpeed keys, or the DeepSpeed file that it names."""
    inside = file.inside("deepspeed_config")
    if not inside.values:
        file.map_key("deepspeed_config")
    name = "deepspeed_config_file"
    if name in inside and (path := inside.file(name, folder, "--deepspeed", "distributed")):
        take_deepspeed(situation, path)
    table, homes = table_of("accelerate"), table_of("deepspeed")["homes"]
    own = {name: homes[key] for name, key in table["deepspeed"].items()}
    inside.answers(own | table["answers"], table["unread"])


def _precision(situation: Situation, file: Given) -> None:
    """Takes over accelerate's precision if the training configuration sets none."""
    word = file.values["mixed_precision"]
    chosen = {name: situation.value(name) for name in ("bf16", "fp16")}
    if word in ("no", False, None):
        file.map_key("mixed_precision", because="training.bf16 and training.fp16 set it")
    elif word not in ("bf16", "fp16"):
        file.refuse_key("mixed_precision", "a recipe trains in float32, bfloat16 or float16", "training.bf16")
    elif chosen[word] in (True, "true"):
        file.map_key("mixed_precision", because=f"training.{word} sets it")
    elif True in chosen.values() or any(f"training.{name}" in situation.draft.values for name in chosen):
        file.emulate_key("mixed_precision", "the training configuration's own value wins")
    else:
        because = "the training configuration does not set it, so this value counts"
        file.emulate_key("mixed_precision", because, f"training.{word}", True)
        situation.given.taken[word] = True
