"""deepspeed.json: the ZeRO stage; every value that the trainer knows as well is left to it."""

import json
from collections.abc import Mapping

from grpo_recipes.contract.plan import Plan

AUTO = "auto"


def deepspeed_json(plan: Plan) -> str | None:
    """The text of deepspeed.json, or None for a run without DeepSpeed.

    "auto" takes the trainer's value. A written number would have to equal it, and a missing
    gradient_accumulation_steps is read as 1, not as auto (accelerate 1.15.0, transformers 5.23.0).
    """
    if plan.deepspeed is None:
        return None
    config: dict[str, object] = {
        "train_batch_size": AUTO,
        "train_micro_batch_size_per_gpu": AUTO,
        "gradient_accumulation_steps": AUTO,
        "gradient_clipping": AUTO,
        "bf16": {"enabled": AUTO},
        "fp16": {"enabled": AUTO},
        "zero_optimization": _zero_optimization(plan.deepspeed, pin_memory=plan.world.device == "cuda"),
    }
    autocast = plan.deepspeed.get("torch_autocast")
    if autocast is not None:
        # Empty, not absent or false: accelerate 1.15.0 would switch an absent one on, transformers refuse a false one.
        config["bf16"] = {}
        config["torch_autocast"] = {"enabled": True, "dtype": autocast}
    extra = plan.deepspeed.get("extra")
    if isinstance(extra, Mapping):
        config = merged(config, extra)
    return json.dumps(config, indent=2) + "\n"


def _zero_optimization(deepspeed: Mapping[str, object], *, pin_memory: bool) -> dict[str, object]:
    """The ZeRO section. Pinned memory needs a GPU that copies from it."""
    stage = deepspeed["zero_stage"]
    zero: dict[str, object] = {"stage": stage, "reduce_bucket_size": AUTO}
    for key in ("offload_optimizer", "offload_param"):
        device = deepspeed.get(f"{key}_device", "none")
        if device != "none":
            zero[key] = {"device": device, "pin_memory": pin_memory}
    if stage == 3:
        zero["stage3_prefetch_bucket_size"] = AUTO
        zero["stage3_param_persistence_threshold"] = AUTO
        # Without it a saved model has no weights in it.
        zero["stage3_gather_16bit_weights_on_model_save"] = True
    return zero


def merged(base: Mapping[str, object], extra: Mapping[str, object]) -> dict[str, object]:
    """A new mapping with the keys of both; maps merge, everything else of `extra` wins."""
    result = dict(base)
    for key, value in extra.items():
        old = result.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        result[key] = merged(old, value) if both else value  # type: ignore[arg-type]
    return result
