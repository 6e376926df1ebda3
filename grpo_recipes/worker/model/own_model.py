"""Writes the model with new tokens or a merged adapter to a folder that all ranks, and vLLM, load."""

import contextlib
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoProcessor, AutoTokenizer, BitsAndBytesConfig, set_seed

from grpo_recipes.contract.files.folder_files import remove_tree, status
from grpo_recipes.contract.integrity.checkpoints import unsafe_names
from grpo_recipes.contract.integrity.digests import sizes_in
from grpo_recipes.contract.integrity.manifest import MANIFEST, NotWhole, faults, model_files, refuse
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import Ancestor
from grpo_recipes.worker._shared.planned import dtype_keyword, trust_remote_code
from grpo_recipes.worker.checkpoints.checkpoint import put_in_place, write_model_manifest
from grpo_recipes.worker.model.adapters import with_adapter
from grpo_recipes.worker.model.continued_adapter import adapter_tensors, refuse_other_tensors
from grpo_recipes.worker.model.merging import merged


def write_own_model(plan: Plan, folder: Path) -> None:
    """Writes the model that the run starts from, with its tokenizer, to `folder`, unless it exists.

    Call it before GRPOConfig is built, which under ZeRO-3 makes every load collective.
    """
    write_model(folder, lambda: _extend(plan))


def write_model(folder: Path, make: Callable[[], tuple[Any, Any]]) -> None:
    """Writes the tokenizer, or processor, and the model that `make` returns, with a manifest.

    A folder that is complete and has no code stays; anything else is rewritten, with the same result for the same plan.
    """
    there = status(folder.parent, folder.name)
    if there is not None:
        because = why_not_whole(folder) if stat.S_ISDIR(there.st_mode) else "it is a link or a file, not a folder"
        because = because or (f"reading {code} may run code" if (code := code_in(folder)) else None)
        if because is None:
            return
        print(f"rewriting {folder.name}: {because}", flush=True)
    tokenizer, model = make()
    writing = folder.with_name(f".{folder.name}.writing")
    remove_tree(writing.parent, writing.name)
    model.save_pretrained(writing)
    tokenizer.save_pretrained(writing)
    write_model_manifest(writing, folder.parent)
    with contextlib.suppress(NotADirectoryError):
        remove_tree(folder.parent, folder.name)
    put_in_place(writing, folder)


def _extend(plan: Plan) -> tuple[Any, Any]:
    """Returns the tokenizer, or processor, and the model that the run starts from.

    The adapter of model.from_run is merged into it. The tokens of `tokenizer.add_tokens` are not special, so they stay
    in the decoded text that rewards see. New embeddings are drawn around the mean of the others, from the run's seed.
    Embeddings are never removed: many models have spare rows.
    """
    set_seed(plan.arguments.GRPOConfig["seed"])
    processing, model = _merge(plan) if plan.ancestor is not None and plan.ancestor.use == "merge" else _plain(plan)
    tokenizer = getattr(processing, "tokenizer", processing)
    tokenizer.add_tokens(list(plan.tokenizer.add_tokens), special_tokens=False)
    if len(tokenizer) > model.get_input_embeddings().weight.shape[0]:
        model.resize_token_embeddings(len(tokenizer))
    return processing, model


def model_class(path: str, **origin: Any) -> Any:
    """Returns the class that TRL would load the model with: vision models have different modules than text models."""
    config = AutoConfig.from_pretrained(path, **origin)
    if origin.get("trust_remote_code") and getattr(config, "auto_map", None):
        return AutoModelForCausalLM
    return getattr(transformers, (config.architectures or [""])[0], AutoModelForCausalLM)


def _processing(kind: Any, path: str, origin: dict[str, Any]) -> Any:
    """Loads a model's tokenizer, or a vision model's processor."""
    sees = kind is not AutoModelForCausalLM and not kind.__name__.endswith(("ForCausalLM", "LMHeadModel"))
    return (AutoProcessor if sees else AutoTokenizer).from_pretrained(path, **origin)


def _origin(plan: Plan) -> dict[str, Any]:
    revision = plan.model.commit or plan.model.revision
    return {"revision": revision, "trust_remote_code": trust_remote_code(plan)}


def _plain(plan: Plan) -> tuple[Any, Any]:
    """Returns the planned tokenizer, or processor, and model."""
    origin = _origin(plan)
    kind = model_class(plan.model.path, **origin)
    processing = _processing(kind, plan.model.path, origin)
    return processing, kind.from_pretrained(plan.model.path, **dtype_keyword(plan), **origin)


def _merge(plan: Plan) -> tuple[Any, Any]:
    """Returns the tokenizer, or processor, the adapter's if it has one, and the model with the adapter merged."""
    assert plan.ancestor is not None
    brought = plan.ancestor.source == "folder" and Path(plan.ancestor.path, "tokenizer_config.json").is_file()
    origin = _origin(plan)
    kind = model_class(plan.model.path, **origin)
    processing = _processing(kind, plan.ancestor.path if brought else plan.model.path, origin)
    return processing, merged_model(plan, plan.ancestor, origin)


def code_in(folder: Path) -> str | None:
    """Returns a file of a folder that may run code when the model is loaded, None without any."""
    return next((name for name in sizes_in(folder) if name.endswith(".py") or unsafe_names([name])), None)


def why_not_whole(folder: Path) -> str | None:
    """Returns why a folder is not a completely written model, None if it is."""
    try:
        listed = model_files(folder)
        refuse(faults(folder, listed, contents=True))
    except FileNotFoundError:
        return f"it has no {MANIFEST}, which lists its files"
    except NotWhole as problem:
        return str(problem)
    return None


def merged_model(plan: Plan, ancestor: Ancestor, origin: dict[str, Any]) -> Any:
    """Returns a plan's model with another run's adapter merged into it, in the plan's dtype.

    All of this happens in main memory, not on a GPU.
    origin: where the model is loaded from, besides its path. Raises Refused if the adapter does not fit this model.
    """
    planned = dtype_keyword(plan)
    target = getattr(torch, next(iter(planned.values()), "float32"))
    adapted = with_adapter(
        _base(plan, ancestor, origin, next(iter(planned), "dtype")),
        Path(ancestor.path),
        torch_device="cpu",
        **({} if ancestor.commit is None else {"revision": ancestor.commit}),
    )
    refuse_other_tensors(adapted, adapter_tensors(ancestor), ancestor)
    merged_in = merged(adapted, target, "lora: {continue: true} continues with it as it is")
    print(f"merged the adapter of {ancestor.name} into its model, as {target}", flush=True)
    return merged_in


def _base(plan: Plan, ancestor: Ancestor, origin: dict[str, Any], dtype_key: str) -> Any:
    """Returns the model as the adapter was trained on it, in full precision.

    A base that was quantized to 4 or 8 bits in training is quantized and dequantized again, since the adapter was
    trained on these values.
    """
    dtype = ancestor.dtype or plan.arguments.model_init_kwargs.get(dtype_key) or "float32"
    loading, kind = {dtype_key: dtype, **origin}, model_class(plan.model.path, **origin)
    if ancestor.quantization is None:
        return kind.from_pretrained(plan.model.path, **loading)
    quantization = BitsAndBytesConfig(**ancestor.quantization)
    packed = kind.from_pretrained(plan.model.path, quantization_config=quantization, device_map={"": "cpu"}, **loading)
    print(f"the model of {ancestor.name} was quantized: dequantizing it to merge its adapter", flush=True)
    return packed.dequantize()
