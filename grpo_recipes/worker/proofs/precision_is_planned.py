"""Weights, adapter and computation have the planned dtypes while the loss is computed.

Catches: weights loaded in a different dtype than the recipe's (the key is `torch_dtype` up to TRL 0.26 and `dtype`
after; the wrong key is silently ignored), an adapter cast to half precision, autocast that was requested but is off, or
the reverse, completions scored in a different precision than the loss computes in, and 4-bit layers that compute in a
different dtype than bnb_4bit_compute_dtype. DeepSpeed's own bf16 and fp16 cast all tensors and keep float32 master
weights; they are used only for weights of that dtype. FSDP2 with autocast casts weights that were loaded in half
precision to float32, and gathers them in autocast's dtype.
Source: trl's grpo_trainer.py, peft 0.21.2 cast_adapter_dtype, deepspeed's engine.py, accelerate 1.10.1 to
1.15.0 fsdp_utils.py: fsdp2_prepare_model.
"""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.seen import FirstStep

ID = "PRF006"
PROOF = Statement(ID, "dtypes")
SHIM = "zero_autocast"


def prove(plan: Plan, processes: tuple[FirstStep, ...]) -> Proof:
    """Compares the dtypes on all processes with the plan."""
    planned, observed = {**planned_dtypes(plan), **_upcast(plan)}, _observed_dtypes(processes)
    wrong = [name for name, dtype in planned.items() if dtype is not None and observed.get(name, dtype) != dtype]
    dtypes = {name: dtype for name, dtype in observed.items() if name != "scores" or dtype != observed.get("compute")}
    shown = "dtypes " + ", ".join(f"{name} {dtype}" for name, dtype in dtypes.items())
    if not wrong:
        return PROOF.holds(shown)
    return PROOF.fails(
        shown,
        observed=", ".join(f"{name} {observed[name]}" for name in wrong),
        planned=", ".join(f"{name} {planned[name]}" for name in wrong),
        because="precision is part of the experiment: rounding decides which updates are lost",
        fix="model.dtype, training.bf16 and quantization.bnb_4bit_compute_dtype set the dtypes; if they are right,"
        " a package or a patch casts the model after loading",
    )


def planned_dtypes(plan: Plan) -> dict[str, str | None]:
    """Returns the planned dtype of weights, adapter, compute, scores and 4-bit layers; None if any dtype is right.

    A run that was planned without the shim of SHM027 keeps scoring in float32.
    """
    arguments = plan.arguments.GRPOConfig
    half = "bfloat16" if arguments.get("bf16") else "float16" if arguments.get("fp16") else None
    weights, adapter = plan.expect.weights_dtype, plan.expect.adapter_dtype
    if half and plan.expect.deepspeed_stage and weights == half:
        adapter = half
    packed = (plan.arguments.BitsAndBytesConfig or {}).get("bnb_4bit_compute_dtype")
    return {
        "weights": weights,
        "adapter": adapter,
        "compute": half or weights,
        "scores": None if (plan.deepspeed or {}).get("torch_autocast") and SHIM not in plan.shims else half or weights,
        "4-bit compute": None if packed is None else str(packed),
    }


def _upcast(plan: Plan) -> dict[str, str | None]:
    """Returns the weights that accelerate casts to float32 because FSDP2 trains them; adapters need no cast."""
    arguments = plan.arguments.GRPOConfig
    is_autocast = arguments.get("bf16") is True or arguments.get("fp16") is True
    is_upcast = plan.world.strategy == "fsdp2" and is_autocast and plan.expect.trainable == "full"
    return {"weights": "float32"} if is_upcast else {}


def _observed_dtypes(processes: tuple[FirstStep, ...]) -> dict[str, str]:
    by_name: dict[str, set[str]] = {
        "weights": {dtype for process in processes for dtype in process.precision.weights},
        "adapter": {dtype for process in processes for dtype in process.precision.adapter},
        "compute": {process.precision.compute for process in processes if process.precision.compute is not None},
        "scores": {dtype for process in processes for dtype in process.precision.scores},
        "4-bit compute": {dtype for process in processes for dtype in process.precision.packed},
    }
    return {name: " and ".join(sorted(dtypes)) for name, dtypes in by_name.items() if dtypes}
