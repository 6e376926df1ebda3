"""Phase 6: how vLLM generates, for the plan."""

from collections.abc import Mapping

from grpo_recipes.contract.plan_sections import PlannedMemory, Vllm, VllmServer
from grpo_recipes.facts.vllm_server import server_program
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import has_server_node
from grpo_recipes.rules._shared.memory_needs import memory_needs
from grpo_recipes.rules._shared.vllms_gpu import starts_server


def vllm(context: Context) -> Vllm | None:
    """What the worker and the server are told beside GRPOConfig; None where transformers generates."""
    if context.value("GRPOConfig.use_vllm") is not True:
        return None
    engine = dict(context.mapping("generation.vllm_engine"))
    return Vllm(
        mode="server" if context.text("GRPOConfig.vllm_mode") == "server" else "colocate",
        dtype=context.text("vllm.dtype"),
        engine=engine,
        server=server(context, engine),
    )


def server(context: Context, engine: Mapping[str, object]) -> VllmServer | None:
    """The server that the run starts, None when somebody else runs it.

    engine: arguments of vLLM's engine from the recipe. What the target's server has no flag for was refused (SRV003).
    """
    device = context.text("world.device")
    program = server_program(context.facts.versions)
    if not starts_server(context) or program is None:
        return None
    own_node, gpus = has_server_node(context), context.whole("world.server_gpus")
    first = 0 if own_node else context.whole("world.num_processes")
    port = context.value("vllm_server.port")
    arguments = {**_arguments(context, device), **engine}
    return VllmServer(
        command=(*program.command, *program.flags(arguments), *program.words),
        environment=dict(program.environment),
        gpus=tuple(range(first, first + gpus)),
        port=port if isinstance(port, int) else None,
        startup_timeout=context.whole("vllm_server.startup_timeout"),
        max_restarts=context.whole("vllm_server.max_restarts"),
        own_node=own_node,
    )


def _arguments(context: Context, device: str) -> dict[str, object]:
    """What the recipe says elsewhere. On the CPU the share of the GPU's memory would be one of the machine's."""
    length = context.value("GRPOConfig.vllm_max_model_length")
    arguments: dict[str, object] = {
        "dtype": context.value("vllm.dtype") or "auto",
        "seed": context.value("GRPOConfig.seed"),
        "tensor_parallel_size": max(context.whole("world.server_gpus"), 1),
        "max_model_len": length if isinstance(length, int) else None,
        "trust_remote_code": context.value("GRPOConfig.trust_remote_code") is True or None,
    }
    if device == "cuda":
        arguments["gpu_memory_utilization"] = context.value("vllm_server.gpu_memory_utilization")
    return arguments


def planned_memory(context: Context) -> PlannedMemory:
    """The estimate of checked settings, "unknown" with its reason for what is not covered."""
    needs = memory_needs(context)
    if isinstance(needs, str):
        return PlannedMemory("unknown", unknown=needs)
    found = needs.estimate()
    return PlannedMemory(found.verdict(), found.by_phase(), found.gpu_bytes, needs.assumed, found.unknown)
