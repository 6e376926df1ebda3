"""The model with new tokens or a merged adapter, as a folder that all ranks, and vLLM, start from."""

import contextlib
import stat
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig, set_seed

from grpo_recipes.contract.files.folder_files import remove_tree, status
from grpo_recipes.contract.integrity.manifest import MANIFEST, NotWhole, faults, refuse, stated_of_model
from grpo_recipes.contract.integrity.seal import YOU
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import Ancestor
from grpo_recipes.worker._shared.planned import trust_remote_code
from grpo_recipes.worker.adapters.merging import merged
from grpo_recipes.worker.checkpoints.checkpoint import put_in_place
from grpo_recipes.worker.checkpoints.manifest import write_model_manifest
from grpo_recipes.worker.trainer.continued_adapter import adapter_tensors, refuse_other_tensors


def write_own_model(plan: Plan, place: Path) -> None:
    """Writes the model that the run starts from, with its tokenizer, to `place`, if it is not yet there.

    The adapter of model.from_run is merged into it. The tokens of `tokenizer.add_tokens` are not special, so they stay
    in the decoded text that rewards see. New embeddings are drawn around the mean of the others, from the run's seed.
    Embeddings are never made fewer: many models have spare rows. Call it before GRPOConfig is built, which under
    ZeRO-3 makes every load a collective one. What is there and was not written so by this user is made anew: the same
    model, adapter and seed give the same.
    """
    there = status(place.parent, place.name)
    if there is not None:
        because = why_not_own(place) if stat.S_ISDIR(there.st_mode) else "it is no folder of its own"
        if because is None:
            return
        print(f"{place.name} is made anew: {because}", flush=True)
    set_seed(plan.arguments.GRPOConfig["seed"])
    tokenizer, model = _merged(plan) if plan.ancestor is not None and plan.ancestor.use == "merge" else _plain(plan)
    tokenizer.add_tokens(list(plan.tokenizer.add_tokens), special_tokens=False)
    if len(tokenizer) > model.get_input_embeddings().weight.shape[0]:
        model.resize_token_embeddings(len(tokenizer))
    writing = place.with_name(f".{place.name}.writing")
    remove_tree(writing.parent, writing.name)
    model.save_pretrained(writing)
    tokenizer.save_pretrained(writing)
    write_model_manifest(writing, place.parent)
    with contextlib.suppress(NotADirectoryError):
        remove_tree(place.parent, place.name)
    put_in_place(writing, place)


def _origin(plan: Plan) -> dict[str, Any]:
    revision = plan.model.commit or plan.model.revision
    return {"revision": revision, "trust_remote_code": trust_remote_code(plan)}


def _plain(plan: Plan) -> tuple[Any, Any]:
    """Tokenizer and model as they are planned."""
    origin = _origin(plan)
    tokenizer = AutoTokenizer.from_pretrained(plan.model.path, **origin)
    dtype = {key: value for key, value in plan.arguments.model_init_kwargs.items() if key in DTYPES}
    return tokenizer, AutoModelForCausalLM.from_pretrained(plan.model.path, **dtype, **origin)


def _merged(plan: Plan) -> tuple[Any, Any]:
    """Tokenizer and model with the adapter merged; the tokenizer is the adapter's own, if it brought one."""
    assert plan.ancestor is not None
    brought = plan.ancestor.source == "folder" and Path(plan.ancestor.path, "tokenizer_config.json").is_file()
    origin = _origin(plan)
    tokenizer = AutoTokenizer.from_pretrained(plan.ancestor.path if brought else plan.model.path, **origin)
    return tokenizer, merged_model(plan, plan.ancestor, origin)


def why_not_own(place: Path) -> str | None:
    """Why a folder is not such a model as this user wrote it, None where it is."""
    try:
        listed, signer = stated_of_model(place)
        if signer != YOU:
            return f"its {MANIFEST} was not written by you"
        refuse(faults(place, listed, contents=True))
    except FileNotFoundError:
        return f"it has no {MANIFEST}, which lists what was written"
    except NotWhole as problem:
        return str(problem)
    return None


# A model into which the adapter of another run is merged, before a run starts from it.
#
# All of it happens in the memory of the machine and not on a GPU. A model that was trained on in 4 or
# 8 bits is quantized as it was and dequantized: what the adapter corrected are the numbers of that model.


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
