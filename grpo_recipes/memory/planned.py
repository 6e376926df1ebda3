"""The update and the layout of a plan: what its memory depends on, read from its arguments."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from grpo_recipes.contract.plan import Plan
from grpo_recipes.facts.output_layer import output_layer
from grpo_recipes.memory.layout import Generation, Layout
from grpo_recipes.memory.update import Adapter, Attention, FourBits, Output, Update, ends

_WIDTHS = {"float32": 4, "bfloat16": 2, "float16": 2}
_ATTENTION: Mapping[str, Attention] = {
    "sdpa": "sdpa",
    "eager": "eager",
    "flash_attention_2": "flash_attention_2",
    "flash_attention_3": "flash_attention_2",
}
_ASSUMED_PROMPT = 512
_NOT_COVERED = (
    "modules_to_save",
    "rank_pattern",
    "layers_to_transform",
    "layer_replication",
    "trainable_token_indices",
)


@dataclass(frozen=True, slots=True)
class PlannedMemory:
    """What of a plan its memory depends on. gpu_bytes: of its smallest GPU. assumed: what the plan does not say."""

    update: Update
    layout: Layout
    gpu_bytes: int | None
    assumed: tuple[str, ...]


def planned_memory(plan: Plan) -> PlannedMemory | str:
    """The update and the layout of a plan, or why its memory is not known."""
    arguments, model = plan.arguments.GRPOConfig, plan.arguments.model_init_kwargs
    output = _output(plan)
    if output is None:
        return "how this release of trl computes probabilities was not looked into"
    if arguments.get("use_liger_loss") or arguments.get("use_liger_kernel"):
        return "the kernels of liger were not looked into"
    attention = _ATTENTION.get(str(model.get("attn_implementation") or "sdpa"))
    if attention is None:
        return f"attention by {model.get('attn_implementation')} was not looked into"
    weights = _WIDTHS.get(str(model.get("dtype")))
    if weights is None:
        return f"the width of dtype {model.get('dtype')} is not known before the model is read"
    adapter, four_bits = _adapter(plan), _four_bits(plan)
    if isinstance(adapter, str):
        return adapter
    if isinstance(four_bits, str):
        return four_bits
    prompt, assumed = _prompt(plan)
    is_mixed = bool(arguments.get("bf16") or arguments.get("fp16"))
    if plan.world.strategy == "fsdp2" and is_mixed:
        weights = 2  # it computes with copies in the type of mixed precision
    update = Update(
        weight_width=weights,
        autocast_width=2 if is_mixed else None,
        four_bits=four_bits,
        adapter=adapter,
        is_checkpointing=bool(arguments.get("gradient_checkpointing")),
        attention=attention,
        batch=plan.batch.micro_batch,
        prompt=prompt,
        completion=cast(int, arguments["max_completion_length"]),
        accumulation=plan.batch.accumulation,
        optimizer=str(arguments.get("optim")),
        output=output,
        device=plan.world.device,
        # DeepSpeed's torch_autocast gathers in its type; deepspeed 0.19.8, runtime/torch_autocast.py: get_comm_dtype
        gathers_as_computed=plan.world.strategy == "zero3",
    )
    return PlannedMemory(update, _layout(plan), _gpu_bytes(plan), assumed)


def _output(plan: Plan) -> Output | None:
    packages = plan.stack.get("packages")
    release = packages.get("trl") if isinstance(packages, Mapping) else None
    return None if release is None else cast(Output | None, output_layer(str(release)))


def _adapter(plan: Plan) -> Adapter | str | None:
    lora = plan.arguments.LoraConfig
    if lora is None:
        return None
    targets = ends(cast(str | list[str], lora.get("target_modules")))
    odd = next((key for key in _NOT_COVERED if lora.get(key)), None)
    if targets is None or odd is not None or lora.get("use_dora"):
        return f"what an adapter with {odd or 'these target_modules or use_dora'} takes was not looked into"
    width = _WIDTHS.get(plan.expect.adapter_dtype or "float32", 4)
    return Adapter(cast(int, lora["r"]), targets, width, has_dropout=bool(lora.get("lora_dropout")))


def _four_bits(plan: Plan) -> FourBits | str | None:
    quantization = plan.arguments.BitsAndBytesConfig
    if quantization is None:
        return None
    if not quantization.get("load_in_4bit"):
        return "what 8-bit weights take was not looked into"
    width = _WIDTHS.get(str(quantization.get("bnb_4bit_compute_dtype") or "float32"), 4)
    return FourBits(width, bool(quantization.get("bnb_4bit_use_double_quant")))


def _prompt(plan: Plan) -> tuple[int, tuple[str, ...]]:
    """The tokens of the longest prompt, and what is assumed where nothing limits them."""
    arguments = plan.arguments.GRPOConfig
    for limit in (arguments.get("max_prompt_length"), plan.shims.get("max_prompt_length")):
        if isinstance(limit, int) and not isinstance(limit, bool):
            return limit, ()
    window, completion = arguments.get("vllm_max_model_length"), arguments["max_completion_length"]
    if isinstance(window, int) and isinstance(completion, int) and window > completion:
        return window - completion, ()
    return _ASSUMED_PROMPT, (f"prompts of at most {_ASSUMED_PROMPT} tokens, for nothing limits them",)


def _layout(plan: Plan) -> Layout:
    arguments, deepspeed = plan.arguments.GRPOConfig, plan.deepspeed or {}
    generation: Generation = "transformers"
    if plan.vllm is not None:
        generation = "vllm_colocate" if plan.vllm.mode == "colocate" else "vllm_server"
    has_kl, batch = bool(arguments.get("beta")), plan.batch
    is_corrected = plan.vllm is not None and arguments.get("vllm_importance_sampling_correction", True) is True
    every = batch.steps_per_generation * cast(int, arguments.get("num_iterations", 1))
    return Layout(
        strategy=plan.world.strategy,
        processes=plan.world.num_processes,
        generation=generation,
        sequences=batch.micro_batch * batch.steps_per_generation,
        has_reference=has_kl and plan.arguments.LoraConfig is None,
        scores=has_kl or is_corrected or batch.accumulation % every != 0,
        offloads_optimizer=deepspeed.get("offload_optimizer_device", "none") != "none",
        offloads_weights=deepspeed.get("offload_param_device", "none") != "none",
        vllm_share=cast(float, arguments.get("vllm_gpu_memory_utilization") or 0.0),
        vllm_sleeps=bool(arguments.get("vllm_enable_sleep_mode")),
        vllm_ranks=cast(int, arguments.get("vllm_tensor_parallel_size") or 1),
    )


def _gpu_bytes(plan: Plan) -> int | None:
    """The memory of the smallest GPU, None on the CPU and where one is not known."""
    gpus = plan.stack.get("gpus")
    if plan.world.device == "cpu" or not isinstance(gpus, list) or not gpus:
        return None
    sizes = [gpu.get("memory_gib") for gpu in gpus]
    return None if any(size is None for size in sizes) else round(min(sizes) * 2**30)
