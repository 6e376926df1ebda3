"""Phase 6, first half: the keyword arguments of every object that the worker builds."""

from collections.abc import Mapping
from typing import Literal

from grpo_recipes.contract.plan_machine import Arguments
from grpo_recipes.contract.plan_sections import Expect, PlannedMemory, Vllm, VllmServer
from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.facts.expression import Passed, loading_keyword
from grpo_recipes.facts.vllm_server import server_program
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import adapter_dtype, is_quantized
from grpo_recipes.rules._shared.machines import has_server_node
from grpo_recipes.rules._shared.memory_needs import memory_needs
from grpo_recipes.rules._shared.vllms_gpu import starts_server

# Live values that must equal the plan's before the first step, besides all experiment values.
COMPARED = (
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "steps_per_generation",
    "use_vllm",
    "gradient_checkpointing",
    "use_cpu",
)
# Names that GRPOConfig and transformers' GenerationConfig share.
SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
# Values that the library converts after they are passed.
NOT_COMPARED = frozenset({"optim", "lr_scheduler_type", "trust_remote_code"})


def grpo_config(context: Context, keys: Mapping[str, Passed]) -> dict[str, object]:
    """The GRPOConfig arguments: what the user wrote, what was decided, and every experiment value that matters."""
    passed = {key.partition(".")[2]: argument.value for key, argument in keys.items() if _is_field(key)}
    return passed | _own_values(context, passed)


def _is_field(key: str) -> bool:
    return key.startswith("GRPOConfig.")


def _own_values(context: Context, passed: dict[str, object]) -> dict[str, object]:
    """The values that grpo-run itself sets."""
    fields = context.facts.fields("GRPOConfig")
    owned: dict[str, object] = {
        "use_cpu": context.value("world.device") == "cpu",
        "reward_weights": [float(reward["weight"]) for reward in context.items("rewards")],
        "eval_strategy": "no",
        "save_strategy": "steps" if context.whole("GRPOConfig.save_steps") else "no",
        "disable_tqdm": True,
        "report_to": context.value("GRPOConfig.report_to") or "none",
    }
    if passed.get("run_name") is None:
        owned["run_name"] = context.text("name")
    return {name: value for name, value in owned.items() if fields is None or name in fields}


def arguments(context: Context, keys: Mapping[str, Passed]) -> Arguments:
    """All arguments of the run. keys: the values to pass for GRPOConfig."""
    settings = context.settings
    lora = settings.under("LoraConfig") | {"task_type": "CAUSAL_LM"} if context.has_section("lora") else None
    quantization = settings.under("BitsAndBytesConfig") if is_quantized(context) else None
    if quantization is not None and not quantization.get("load_in_4bit"):
        quantization = {k: v for k, v in quantization.items() if not k.startswith("bnb_4bit")}
    return Arguments(
        GRPOConfig=grpo_config(context, keys),
        model_init_kwargs=model_init_kwargs(context, keys),
        LoraConfig=lora,
        BitsAndBytesConfig=quantization,
        quantization_config_in=quantization_config_in(context),
    )


def model_init_kwargs(context: Context, keys: Mapping[str, Passed]) -> dict[str, object]:
    """The arguments for loading the model, by the target's names.

    Always sets the device map, even to none: TRL 0.26 and newer default to "auto", which spreads layers over GPUs, and
    which ZeRO-3 refuses.
    """
    loading: dict[str, object] = {"device_map": None}
    loading |= {
        loading_keyword(key, context.facts.versions): value
        for key, value in context.settings.under("model_init_kwargs").items()
        if value is not None and value != "auto"
    }
    moved = {key.partition(".")[2]: argument.value for key, argument in keys.items() if not _is_field(key)}
    return loading | moved


def quantization_config_in(context: Context) -> Literal["GRPOTrainer", "model_init_kwargs"]:
    """What takes the BitsAndBytesConfig: the trainer itself if it has the parameter."""
    parameters = context.facts.parameters("GRPOTrainer")
    return "GRPOTrainer" if parameters is None or "quantization_config" in parameters else "model_init_kwargs"


def expect(context: Context, passed: dict[str, object], trainable_parameters: int | None) -> Expect:
    """The values that the worker must find in the live trainer."""
    strategy = str(context.value("distributed.strategy"))
    compared: dict[str, object] = {
        name: value
        for name, value in passed.items()
        if (name not in classified_fields() or classified_fields()[name].kind == "experiment" or name in COMPARED)
        and name not in NOT_COMPARED
        and isinstance(value, int | float | str)
    }
    return Expect(
        world_size=context.whole("world.num_processes"),
        deepspeed_stage=int(strategy[-1]) if strategy.startswith("zero") else 0,
        trainable="lora" if context.has_section("lora") else "full",
        trainable_parameters=trainable_parameters,
        arguments=compared,
        weights_dtype=weights_dtype(context),
        adapter_dtype=adapter_dtype(context),
        stop=tuple(str(text) for text in context.items("generation.stop")),
        stop_token_ids=tuple(int(str(token)) for token in context.items("generation.stop_token_ids")),
    )


def weights_dtype(context: Context) -> str | None:
    """The dtype of the model's own weights, None if the recipe leaves it to the model (auto)."""
    weights = context.value("model_init_kwargs.dtype")
    return None if weights == "auto" else str(weights or "float32")


OF_AN_ADAPTER = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"}


def vllm(context: Context) -> Vllm | None:
    """The settings of worker and server other than GRPOConfig; None if transformers generates."""
    if context.value("GRPOConfig.use_vllm") is not True:
        return None
    rank = context.value("shims.adapter_sync")
    engine = {} if rank is None else {"enable_lora": True, "max_loras": 1, "max_lora_rank": rank}
    engine |= context.mapping("generation.vllm_engine")
    return Vllm(
        mode="server" if context.text("GRPOConfig.vllm_mode") == "server" else "colocate",
        dtype=context.text("vllm.dtype"),
        engine=engine,
        server=server(context, engine),
    )


def server(context: Context, engine: Mapping[str, object]) -> VllmServer | None:
    """The server that the run starts, None if it is started separately.

    engine: the recipe's arguments for vLLM's engine. Those without a flag in the target's server were refused (SRV003).
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
        environment=dict(program.environment) | (OF_AN_ADAPTER if "enable_lora" in engine else {}),
        gpus=tuple(range(first, first + gpus)),
        port=port if isinstance(port, int) else None,
        startup_timeout=context.whole("vllm_server.startup_timeout"),
        max_restarts=context.whole("vllm_server.max_restarts"),
        own_node=own_node,
    )


def _arguments(context: Context, device: str) -> dict[str, object]:
    """The engine arguments that have other recipe keys. On the CPU the GPU memory share would be a share of the
    machine's RAM.
    """
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


def plan_memory(context: Context) -> PlannedMemory:
    """The memory estimate for checked settings, "unknown" with the reason if it is not covered."""
    needs = memory_needs(context)
    if isinstance(needs, str):
        return PlannedMemory("unknown", unknown=needs)
    estimate = needs.estimate()
    return PlannedMemory(estimate.verdict(), estimate.by_phase(), estimate.gpu_bytes, needs.assumed, estimate.unknown)


def sampling(context: Context) -> dict[str, object]:
    """How transformers samples outside of training, without options that only vLLM has, which GEN010 reports."""
    drawn = {name: context.value(f"GRPOConfig.{name}") for name in SAMPLING}
    if context.value("generation.min_tokens") is not None:
        drawn["min_new_tokens"] = context.value("generation.min_tokens")
    own = {} if context.value("GRPOConfig.use_vllm") is True else context.mapping("generation.generation_kwargs")
    return drawn | dict(own)
