"""The process that a stack runs in: `python in_stack.py` imports its libraries once and forks for every experiment.

It reads requests and writes answers, a line of JSON each; laboratory.py is the other end. A fork leaves nothing behind
for the next one: TRL, accelerate and transformers keep state of a trainer in their classes.
"""

import contextlib
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import time
import traceback
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

AFTER_A_FAILURE_S = 10


def cpu_s(whose: int) -> float:
    """CPU seconds of this process (RUSAGE_SELF) or of the children that have ended (RUSAGE_CHILDREN)."""
    used = resource.getrusage(whose)
    return used.ru_utime + used.ru_stime


def import_libraries() -> None:
    """What most experiments need. The rest of a stack is imported by what needs it."""
    import datasets  # noqa: F401
    import deepspeed  # noqa: F401 (accelerate does for each model)
    import peft  # noqa: F401
    import torch
    import transformers.models.qwen2.modeling_qwen2  # noqa: F401
    from transformers import AutoModelForCausalLM
    from trl import GRPOConfig, GRPOTrainer  # noqa: F401

    import grpo_recipes.worker.run
    import grpo_recipes.worker.training  # noqa: F401

    if find_spec("transformers.conversion_mapping") is not None:  # transformers 5
        from transformers.conversion_mapping import get_checkpoint_conversion_mapping

        get_checkpoint_conversion_mapping("qwen2")  # a thousand regular expressions, kept for every model
    else:
        AutoModelForCausalLM._model_mapping.keys()  # where it looks for a class it imports all configurations
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # a trainer collects garbage at its beginning, in the heap of all libraries


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Calls the function "module.name"; an exception is an answer too."""
    result, raised, text = None, "", ""
    module, _, name = request["experiment"].rpartition(".")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            function = getattr(importlib.import_module(module), name)
            result = function(Path(request["folder"]), **request["arguments"])
        except BaseException as error:
            traceback.print_exc()
            raised, text = type(error).__name__, str(error)
    told = [f"{warning.category.__name__}: {warning.message}" for warning in caught]
    return {"result": result, "raised": raised, "text": text, "warnings": told}


def _variables(request: dict[str, Any], rank: int, port: int) -> dict[str, str]:
    """What a launcher sets for a rank of several; nothing for one that is alone."""
    world = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": request["ranks"], "LOCAL_WORLD_SIZE": request["ranks"]}
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    launched = {name: str(value) for name, value in (world | address).items()} if request["ranks"] > 1 else {}
    more: dict[str, str] = request["environment"]
    return launched | more


def _rank(request: dict[str, Any], rank: int, port: int, pipe: int) -> None:
    """One rank from its first line to its end, in the forked process."""
    os.setsid()
    folder = Path(request["folder"])
    os.chdir(folder)
    output = os.open(folder / f"output-{rank}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update(_variables(request, rank, port))
    answered = answer(request)
    sys.stdout.flush()
    sys.stderr.flush()
    with os.fdopen(pipe, "w") as answers:
        answers.write(json.dumps(answered, default=str))
    os._exit(0)


def _has_failed(written: bytes) -> bool:
    return not written or json.loads(written)["raised"] != ""


def _read(pipes: dict[int, int], limit_s: float) -> dict[int, bytes]:
    """What each rank has written when all have ended or the time is over. pipes: file descriptor to rank.

    A rank that is left alone by one that failed waits for it in a collective operation: it gets some seconds more.
    """
    written = dict.fromkeys(pipes.values(), b"")
    left, ends_at = set(pipes), time.monotonic() + limit_s
    while left and (ready := select.select(list(left), [], [], max(0.0, ends_at - time.monotonic()))[0]):
        for pipe in ready:
            chunk = os.read(pipe, 1 << 16)
            written[pipes[pipe]] += chunk
            if not chunk:
                left.remove(pipe)
                if _has_failed(written[pipes[pipe]]):
                    ends_at = min(ends_at, time.monotonic() + AFTER_A_FAILURE_S)
    return written


def in_forks(request: dict[str, Any]) -> dict[str, Any]:
    """The answers of all ranks of one experiment and the CPU seconds that they took."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    children, pipes, before = {}, {}, cpu_s(resource.RUSAGE_CHILDREN)
    for rank in range(request["ranks"]):
        read, write = os.pipe()
        children[rank] = os.fork()
        if children[rank] == 0:
            _rank(request, rank, port, write)
        os.close(write)
        pipes[read] = rank
    written = _read(pipes, request["limit_s"])
    answers = []
    for rank, child in children.items():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        died: dict[str, Any] = {"result": None, "raised": "Died", "text": f"status {status}", "warnings": []}
        answers.append(json.loads(written[rank]) if written[rank] else died)
    for pipe in pipes:
        os.close(pipe)
    return {"answers": answers, "cpu_s": cpu_s(resource.RUSAGE_CHILDREN) - before}


def main() -> None:
    """Says how long the imports took, then answers until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the libraries print goes to stderr
    import_libraries()
    answers.write(json.dumps({"imports_cpu_s": cpu_s(resource.RUSAGE_SELF)}) + "\n")
    answers.flush()
    for line in sys.stdin:
        answers.write(json.dumps(in_forks(json.loads(line))) + "\n")
        answers.flush()
    os._exit(0)  # the libraries' own clean-up takes seconds


if __name__ == "__main__":
    main()
