"""Phase 6: how vLLM generates, for the plan."""

from grpo_recipes.contract.planned_vllm import Vllm
from grpo_recipes.resolve.planning.vllm_server_plan import server
from grpo_recipes.rules._shared.context import Context


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
