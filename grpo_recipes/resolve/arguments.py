"""Phase 6, first half: the keyword arguments of every object that the worker builds."""

from grpo_recipes.facts.classified import classified_fields, matters
from grpo_recipes.plan import Arguments, Expect
from grpo_recipes.resolve.pin import field_values
from grpo_recipes.rules.context import Context
from grpo_recipes.rules.quantization_needs_an_adapter import quantized

# Live values that must equal the plan's before the first step, beside every experiment value.
COMPARED = (
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "steps_per_generation",
    "use_vllm",
    "gradient_checkpointing",
    "use_cpu",
)
# Values that the library keeps in another form than they are passed.
NOT_COMPARED = frozenset({"optim", "lr_scheduler_type", "trust_remote_code"})


def grpo_config(context: Context) -> dict[str, object]:
    """The GRPOConfig arguments: what the user wrote, what was decided, and every experiment value that matters."""
    values = field_values(context.settings)
    passed: dict[str, object] = {}
    for name, field in classified_fields().items():
        setting = context.settings.get(f"GRPOConfig.{name}")
        if setting is None or setting.value == "auto":
            continue
        if setting.given or matters(field, values):
            if setting.value is None and not setting.given:
                continue
            passed[name] = setting.value
    return passed | _owned(context, passed)


def _owned(context: Context, passed: dict[str, object]) -> dict[str, object]:
    """What grpo-run itself sets."""
    owned: dict[str, object] = {
        "use_cpu": context.value("world.device") == "cpu",
        "reward_weights": [float(reward["weight"]) for reward in _rewards(context)],
        "eval_strategy": "no",
        "save_strategy": "steps" if context.whole("GRPOConfig.save_steps") else "no",
        "disable_tqdm": True,
        "report_to": context.value("GRPOConfig.report_to") or "none",
    }
    if passed.get("run_name") is None:
        owned["run_name"] = context.text("name")
    return owned


def _rewards(context: Context) -> list[dict[str, float]]:
    rewards = context.value("rewards")
    return rewards if isinstance(rewards, list) else []


def arguments(context: Context) -> Arguments:
    """All arguments of the run."""
    settings = context.settings
    lora = settings.under("LoraConfig") | {"task_type": "CAUSAL_LM"} if context.has_section("lora") else None
    quantization = settings.under("BitsAndBytesConfig") if quantized(context) else None
    if quantization is not None and not quantization.get("load_in_4bit"):
        quantization = {k: v for k, v in quantization.items() if not k.startswith("bnb_4bit")}
    return Arguments(
        GRPOConfig=grpo_config(context),
        model_init_kwargs={
            key: value
            for key, value in settings.under("model_init_kwargs").items()
            if value is not None and value != "auto"
        },
        LoraConfig=lora,
        BitsAndBytesConfig=quantization,
    )


def expect(context: Context, passed: dict[str, object], trainable_parameters: int | None) -> Expect:
    """What the worker must find in the live trainer."""
    strategy = str(context.value("distributed.strategy"))
    compared: dict[str, object] = {
        name: value
        for name, value in passed.items()
        if (classified_fields()[name].kind == "experiment" or name in COMPARED)
        and name not in NOT_COMPARED
        and isinstance(value, int | float | str)
        and not (name == "scale_rewards" and isinstance(value, bool))
    }
    return Expect(
        world_size=context.whole("world.num_processes"),
        deepspeed_stage=int(strategy[-1]) if strategy.startswith("zero") else 0,
        trainable="lora" if context.has_section("lora") else "full",
        trainable_parameters=trainable_parameters,
        arguments=compared,
        adapter_dtype=adapter_dtype(context),
        stop=tuple(str(text) for text in _listed(context.value("generation.stop"))),
        stop_token_ids=tuple(int(str(token)) for token in _listed(context.value("generation.stop_token_ids"))),
    )


def adapter_dtype(context: Context) -> str | None:
    """The dtype of the LoRA tensors before the first step, None without an adapter or when it is not known.

    TRL makes the adapter of a quantized model bfloat16. PEFT keeps others in float32, also on half-precision
    weights, except under ZeRO-3, where TRL asks for the dtype of the weights.
    Source: trl 1.16.0 grpo_trainer.py, peft 0.21.2 tuners_utils.py cast_adapter_dtype.
    """
    strategy = context.value("distributed.strategy")
    if not context.has_section("lora") or strategy == "fsdp2":
        return None
    if quantized(context):
        return "bfloat16"
    weights = context.value("model_init_kwargs.dtype")
    if strategy == "zero3":
        return str(weights) if weights not in (None, "auto") else None
    return "float32" if weights in ("float32", "bfloat16", "float16") else None


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []
