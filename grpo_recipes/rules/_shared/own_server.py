"""The vLLM server that a run starts for itself, for rules; no rule itself."""

from grpo_recipes.rules._shared.context import Context

USE_VLLM, VLLM_MODE = "GRPOConfig.use_vllm", "GRPOConfig.vllm_mode"
ADDRESS = ("GRPOConfig.vllm_server_base_url", "GRPOConfig.vllm_server_host", "GRPOConfig.vllm_server_port")
GPUS = "vllm_server.gpus"


def is_server_mode(context: Context) -> bool:
    """Whether a vLLM server generates. `use_vllm: auto` never asks for one; `vllm_mode: auto` does where the recipe
    names or describes one, and where this TRL knows no other way."""
    if _value(context, USE_VLLM) is not True:
        return False
    mode = _value(context, VLLM_MODE)
    return mode == "server" or (mode == "auto" and (is_server_alone(context) or names_server(context)))


def names_server(context: Context) -> bool:
    """Whether the recipe has the section vllm_server, or the address of somebody else's server."""
    return context.has_section("vllm_server") or address(context) is not None


def is_server_alone(context: Context) -> bool:
    """Whether this TRL knows vLLM as a server alone, as 0.16 and 0.17 do."""
    fields = context.facts.own_fields("GRPOConfig")
    return fields is not None and "vllm_mode" not in fields and "vllm_server_host" in fields


def address(context: Context) -> str | None:
    """The first key that names a server of somebody else, None without."""
    return next((key for key in ADDRESS if context.given(key)), None)


def starts_server(context: Context) -> bool:
    """Whether the run starts a vLLM server of its own."""
    return is_server_mode(context) and address(context) is None


def _value(context: Context, key: str) -> object:
    """The value, None for one that is refused: whether a server is started is asked before anything is judged."""
    setting = context.settings.get(key)
    return None if setting is None or setting.refused else setting.value
