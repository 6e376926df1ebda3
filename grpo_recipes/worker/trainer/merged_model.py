"""A model into which the adapter of another run is merged, before a run starts from it.

All of it happens in the memory of the machine and not on a GPU. A model that was trained on in 4 or
8 bits is quantized as it was and dequantized: what the adapter corrected are the numbers of that model.
"""

from typing import Any

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.planned_ancestor import Ancestor
from grpo_recipes.worker.adapters.merging import merged
from grpo_recipes.worker.trainer.continued_adapter import adapter_tensors, refuse_other_tensors

DTYPES = ("dtype", "torch_dtype")


def merged_model(plan: Plan, ancestor: Ancestor, origin: dict[str, Any]) -> Any:
    """The model of a plan with an adapter merged into it, in the data type of the plan.

    origin: where the model is loaded from, beside its path. Raises Refused where the adapter is not one of this model.
    """
    planned = {key: value for key, value in plan.arguments.model_init_kwargs.items() if key in DTYPES}
    target = getattr(torch, str(next(iter(planned.values()), "float32")))
    adapted = PeftModel.from_pretrained(
        _base(plan, ancestor, origin, next(iter(planned), DTYPES[0])),
        ancestor.path,
        torch_device="cpu",
        **({} if ancestor.commit is None else {"revision": ancestor.commit}),
    )
    refuse_other_tensors(adapted, adapter_tensors(ancestor), ancestor)
    merged_in = merged(adapted, target, "lora: {continue: true} goes on with it as it is")
    print(f"merged the adapter of {ancestor.name} into its model, as {target}", flush=True)
    return merged_in


def _base(plan: Plan, ancestor: Ancestor, origin: dict[str, Any], dtype_key: str) -> Any:
    """The model as the adapter was trained on it, in full precision."""
    dtype = ancestor.dtype or plan.arguments.model_init_kwargs.get(dtype_key) or "float32"
    loading = {dtype_key: dtype, **origin}
    if ancestor.quantization is None:
        return AutoModelForCausalLM.from_pretrained(plan.model.path, **loading)
    quantization = BitsAndBytesConfig(**ancestor.quantization)
    packed = AutoModelForCausalLM.from_pretrained(
        plan.model.path, quantization_config=quantization, device_map={"": "cpu"}, **loading
    )
    print(f"the model of {ancestor.name} was quantized, and is dequantized to merge its adapter", flush=True)
    return packed.dequantize()
