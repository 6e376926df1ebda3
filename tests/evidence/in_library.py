"""What evidence calls, in the process that has the libraries: `python in_library.py FOLDER` answers lines of JSON."""

import gc
import importlib
import itertools
import json
import os
import select
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.tiny_models import write_tiny_model

STAGE = ["config"]
FOLDER = Path()
REWARD = "def ones(completions, **kwargs):\n    return [float(text.count('1') + len(text)) for text in completions]"


def _config(**arguments: Any) -> Any:
    """A GRPOConfig for the CPU with these arguments; the stage is "config"."""
    from trl import GRPOConfig

    STAGE[0] = "config"
    quiet = {"report_to": "none", "disable_tqdm": True, "logging_steps": 1, "save_strategy": "no", "bf16": False}
    small = {"max_completion_length": 8, "per_device_train_batch_size": 4, "num_generations": 4, "use_cpu": True}
    return GRPOConfig(**{"output_dir": str(FOLDER / f"out-{os.getpid()}"), **quiet, **small, **arguments})


def _of_world(size: int) -> None:
    """Makes TrainingArguments see this many processes, where TRL reads their number."""
    from transformers import TrainingArguments

    TrainingArguments.world_size = property(lambda self: size)


def config(world_size: int, arguments: dict[str, Any], read: list[str]) -> dict[str, Any]:
    """Attributes of a GRPOConfig that was built for a world."""
    _of_world(world_size)
    built = _config(**arguments)
    return {name: getattr(built, name) for name in read}


def configs(cases: list[tuple[int, dict[str, Any]]]) -> list[Any]:
    """For each world and its arguments: completions per generation and per step, or the text of the ValueError."""
    answers: list[Any] = []
    for world_size, arguments in cases:
        _of_world(world_size)
        try:
            built = _config(**arguments)
        except ValueError as error:
            answers.append(str(error))
        else:
            step = built.per_device_train_batch_size * built.gradient_accumulation_steps * world_size
            answers.append([built.generation_batch_size, step])
    return answers


def _functions(source: str) -> list[Callable[..., Any]]:
    """The functions that a text defines."""
    names: dict[str, Any] = {}
    exec(source, names)
    return [value for name, value in names.items() if callable(value) and not name.startswith("_")]


def _trainer(arguments: dict[str, Any], **parts: Any) -> Any:
    """A GRPOTrainer; parts: model, rows, rewards, lora, quantization, device_map, rollout."""
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import BitsAndBytesConfig
    from trl import GRPOTrainer

    torch.set_num_threads(1)
    quantization, lora, rollout = parts.get("quantization"), parts.get("lora"), parts.get("rollout")
    initial = {"dtype": "float32"} | ({"device_map": parts["device_map"]} if "device_map" in parts else {})
    arguments = _config(model_init_kwargs=initial, **arguments)
    STAGE[0] = "trainer"
    return GRPOTrainer(
        model=parts.get("model", str(FOLDER / "model")),
        args=arguments,
        train_dataset=Dataset.from_list(parts.get("rows", [{"prompt": f"{n}+1="} for n in range(8)])),
        reward_funcs=_functions(parts.get("rewards", REWARD)),
        peft_config=LoraConfig(task_type="CAUSAL_LM", **lora) if lora is not None else None,
        quantization_config=BitsAndBytesConfig(**quantization) if quantization is not None else None,
        rollout_func=_functions(rollout)[0] if rollout is not None else None,
    )


def build(arguments: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """Builds a GRPOTrainer; gives the device map and the devices of its model."""
    model = _trainer(arguments, **parts).model
    return {
        "device_map": {key: str(value) for key, value in getattr(model, "hf_device_map", {}).items()} or None,
        "devices": sorted({str(parameter.device) for parameter in model.parameters()}),
    }


def train(arguments: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """Trains; gives the logs and how many trainable tensors there are and have moved."""
    trainer = _trainer({"max_steps": 1, "learning_rate": 0.1, **arguments}, **parts)
    trainable = {name: p for name, p in trainer.model.named_parameters() if p.requires_grad}
    before = {name: p.detach().clone() for name, p in trainable.items()}
    STAGE[0] = "train"
    trainer.train()
    moved = [name for name, p in trainable.items() if not p.detach().equal(before[name])]
    return {"logs": trainer.state.log_history, "trainable": len(trainable), "moved": len(moved)}


def distributed_types(environment: dict[str, str], ranks: int) -> list[Any]:
    """[distributed type, processes] as accelerate sees it on the CPU, in each of several ranks."""

    def types() -> list[Any]:
        from accelerate import Accelerator

        accelerator = Accelerator(cpu=True)
        return [accelerator.distributed_type.value, accelerator.num_processes]

    return in_ranks(types, environment, ranks)


def in_ranks(function: Callable[[], Any], environment: dict[str, str], ranks: int) -> list[Any]:
    """What a function returns in each of several forked ranks. environment: "{rank}" is replaced by the rank."""
    read, write = os.pipe()
    until_all_answered, answered = os.pipe()
    for rank in range(ranks):
        if os.fork() == 0:
            os.close(answered)
            try:
                os.environ.update({key: value.format(rank=rank) for key, value in environment.items()})
                os.write(write, f"{json.dumps([rank, function()])}\n".encode())
                os.close(write)
                os.read(until_all_answered, 1)  # rank 0 serves the store that the others may still be connecting to
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as lines:
        results = dict(json.loads(line) for line in itertools.islice(lines, ranks))
    os.close(answered)
    for _ in range(ranks):
        os.wait()
    return [results[rank] for rank in range(ranks)]


def prepare_spread(device_map: dict[str, int], environment: dict[str, str]) -> None:
    """Hands a quantized model to accelerate in a world of two, with the device map that several GPUs would give it."""
    import torch
    from accelerate import Accelerator
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    settings = BitsAndBytesConfig(load_in_4bit=True)
    model = AutoModelForCausalLM.from_pretrained(FOLDER / "model", quantization_config=settings, dtype=torch.float32)
    model.hf_device_map = device_map
    rank = 0 if os.fork() else 1
    os.environ.update({key: value.format(rank=rank) for key, value in environment.items()})
    accelerator = Accelerator(cpu=True)
    if rank == 1:
        os._exit(0)
    STAGE[0] = "trainer"
    accelerator.prepare_model(model)


def bits_and_bytes(arguments: dict[str, Any]) -> str:
    """The quantization method of a BitsAndBytesConfig."""
    from transformers import BitsAndBytesConfig

    return str(BitsAndBytesConfig(**arguments).quantization_method())


def attach(lora: dict[str, Any]) -> int:
    """Attaches an adapter, gives the number of its trainable parameters."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    built = LoraConfig(task_type="CAUSAL_LM", **lora)
    STAGE[0] = "trainer"
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(FOLDER / "model"), built)
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def handed_over(unmerged_first: bool) -> dict[str, float]:
    """How far weights that were kept of a merged adapter lie from the base and from the merged ones when loaded."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    lora = LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj"], init_lora_weights=False)
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(FOLDER / "model", dtype=torch.float32), lora)
    name = next(key for key in model.state_dict() if key.endswith("q_proj.base_layer.weight"))
    base = model.state_dict()[name].clone()
    model.merge_adapter()
    kept, merged = model.state_dict()[name], model.state_dict()[name].clone()
    if unmerged_first:
        model.unmerge_adapter()
    return {"base": float((kept - base).abs().max()), "merged": float((kept - merged).abs().max())}


def cuda_device(index: int) -> str:
    """Sets the CUDA device, as every process of a launch does."""
    import torch

    torch.cuda.set_device(index)
    return str(torch.cuda.get_device_name(index))


def cuda_devices() -> list[list[int]]:
    """The compute capability of each GPU of this machine."""
    import torch

    return [list(torch.cuda.get_device_capability(n)) for n in range(torch.cuda.device_count())]


CALLS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (config, configs, build, train, distributed_types, prepare_spread, bits_and_bytes)
} | {"attach": attach, "handed_over": handed_over, "cuda_device": cuda_device, "cuda_devices": cuda_devices}


def _call_of(name: str) -> Callable[..., Any]:
    """A function of this file, or "module.function" of a file beside it."""
    module, _, function = name.rpartition(".")
    if not module:
        return CALLS[name]
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Calls the function; an exception is an answer too."""
    result, raised, text = None, "", ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = _call_of(request["function"])(**request["arguments"])
        except Exception as error:
            traceback.print_exc()
            raised, text = type(error).__name__, str(error)
    told = [str(warning.message) for warning in caught]
    return {"result": result, "raised": raised, "text": text, "stage": STAGE[0], "warnings": told}


def in_a_child(request: dict[str, Any]) -> str:
    """The answer of a forked process as a line of JSON; one that dies or takes too long is an answer too."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.dup2(2, 1)
        with os.fdopen(write, "w") as pipe:
            pipe.write(json.dumps(answer(request), default=str))
        os._exit(0)
    os.close(write)
    chunks: list[bytes] = []
    while select.select([read], [], [], request["limit_s"])[0] and (chunk := os.read(read, 1 << 16)):
        chunks.append(chunk)
    os.close(read)
    if not chunks:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    died: dict[str, Any] = {"result": None, "raised": "Died", "text": f"status {status}", "stage": "", "warnings": []}
    return b"".join(chunks).decode() or json.dumps(died)


def main() -> None:
    """Imports the libraries, makes the model, answers until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the libraries print goes to stderr
    import peft  # noqa: F401
    import torch
    import transformers  # noqa: F401
    from trl import GRPOTrainer  # noqa: F401

    torch.set_num_threads(1)
    write_tiny_model(FOLDER / "model", positions=32_768)
    gc.collect()
    gc.freeze()  # the Trainer collects garbage at the beginning, a third of a second in the heap of all libraries
    for line in sys.stdin:
        answers.write(in_a_child(json.loads(line)) + "\n")
        answers.flush()
    os._exit(0)  # the libraries' own clean-up takes seconds


if __name__ == "__main__":
    sys.modules["in_library"] = sys.modules["__main__"]  # for the files beside this one, which import it
    FOLDER = Path(sys.argv[1])
    main()
