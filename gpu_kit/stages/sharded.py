"""What shards a model over processes, with the one process that one GPU allows: NCCL refuses two on a GPU."""

from gpu_kit.bench import Bench, LeftOut
from gpu_kit.machine import installed

NO_CPU = "WLD003"


def run_zero2(bench: Bench) -> None:
    _deepspeed(bench, "zero2")


def run_zero3(bench: Bench) -> None:
    _deepspeed(bench, "zero3")


def run_fsdp2(bench: Bench) -> None:
    file = bench.recipe("fsdp2", "0.5B", tokens=128, dtype="float32")
    found = bench.train(file, "distributed.strategy=fsdp2")
    if bench.scale.device == "cuda":
        bench.completed(found)
    else:
        # accelerate trains with DDP on the CPU and says nothing; a refusal is all that can be seen there.
        bench.figure("on the CPU", "refused" if NO_CPU in found.said else found.said)
        bench.holds(found.code == 2 and NO_CPU in found.said, f"exit {found.code} without {NO_CPU} on the CPU")


def _deepspeed(bench: Bench, strategy: str) -> None:
    if not installed("deepspeed"):
        raise LeftOut("deepspeed is not installed")
    file = bench.recipe(strategy, "0.5B", tokens=128, lora=False, dtype="float32")
    bench.completed(bench.train(file, f"distributed.strategy={strategy}"))
