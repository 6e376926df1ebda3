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


USE_VLLM, VLLM_MODE = "GRPOConfig.use_vllm", "GRPOConfig.vllm_mode"
ADDRESS = ("GRPOConfig.vllm_server_base_url", "GRPOConfig.vllm_server_host", "GRPOConfig.vllm_server_port")
GPUS = "vllm_server.gpus"


def is_server_mode(context: Context) -> bool:
    """Whether a vLLM server generates. `use_vllm: auto` never starts one; `vllm_mode: auto` does if the recipe names or
    describes one, or if this TRL supports only a server.
    """
    if _value(context, USE_VLLM) is not True:
        return False
    mode = _value(context, VLLM_MODE)
    return mode == "server" or (mode == "auto" and (is_server_alone(context) or names_server(context)))


def names_server(context: Context) -> bool:
    """Whether the recipe has the section vllm_server, or the address of a server."""
    return context.has_section("vllm_server") or address(context) is not None


def is_server_alone(context: Context) -> bool:
    """Whether this TRL supports vLLM only as a server, as 0.16 and 0.17 do."""
    fields = context.facts.own_fields("GRPOConfig")
    return fields is not None and "vllm_mode" not in fields and "vllm_server_host" in fields


def address(context: Context) -> str | None:
    """The first key that names the address of a server, None without one."""
    return next((key for key in ADDRESS if context.is_given(key)), None)


def starts_server(context: Context) -> bool:
    """Whether the run starts its own vLLM server."""
    return is_server_mode(context) and address(context) is None


def _value(context: Context, key: str) -> object:
    """The value, None if it was refused: rules ask whether a server starts before they judge anything."""
    setting = context.settings.get(key)
    return None if setting is None or setting.refused else setting.value
