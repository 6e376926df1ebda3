"""The GPU that TRL 0.14 and 0.15 run vLLM on, in the first process, for rules."""

from grpo_recipes.rules._shared.context import Context

DEVICE = "GRPOConfig.vllm_device"


def place(context: Context) -> str:
    """Where this TRL runs vLLM by default: "colocate", "server" or, on one GPU of the machine, "device"."""
    fields = context.facts.own_fields("GRPOConfig")
    if fields is None or "vllm_mode" in fields:
        return "colocate"
    return "server" if "vllm_server_host" in fields else "device"


def vllms_gpu(context: Context) -> int | None:
    """The number of vLLM's own GPU: the written one, or else the first after those of the processes.

    The releases that have vllm_dtype also take the only GPU of a machine. None for other releases, for an unknown GPU,
    and for anything that is not the number of one.
    """
    gpus, fields = context.stack.gpus, context.facts.own_fields("GRPOConfig")
    if place(context) != "device" or not gpus or fields is None:
        return None
    written = context.value(DEVICE) if DEVICE in context.settings else None
    if written not in (None, "auto"):
        kind, _, number = str(written).partition(":")
        return int(number) if kind == "cuda" and number.isdecimal() else None
    return 0 if len(gpus) == 1 and "vllm_dtype" in fields else context.whole("world.num_processes")


def has_a_gpu_of_its_own(context: Context) -> bool:
    """Whether vLLM runs on a GPU that no process trains on."""
    gpu = vllms_gpu(context)
    return gpu is not None and gpu >= context.whole("world.num_processes")
