"""Writes the model with new tokens or a merged adapter to a folder that all ranks, and vLLM, load."""

import contextlib
import stat
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from peft import load_peft_weights, set_peft_model_state_dict
from peft.tuners.tuners_utils import BaseTunerLayer
from peft.utils import get_peft_model_state_dict
from transformers import AutoConfig, AutoModelForCausalLM, AutoProcessor, AutoTokenizer, BitsAndBytesConfig, set_seed

from grpo_recipes.contract.files.folder_files import remove_tree, status
from grpo_recipes.contract.integrity.checkpoints import unsafe_names
from grpo_recipes.contract.integrity.digests import sizes_in
from grpo_recipes.contract.integrity.manifest import MANIFEST, NotWhole, faults, model_files, refuse
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import Ancestor
from grpo_recipes.worker._shared.planned import dtype_keyword, trust_remote_code
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.checkpoints.checkpoint import put_in_place, write_model_manifest
from grpo_recipes.worker.model.adapters import with_adapter


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


# Merges another run's adapter into a model before a run starts from it.
#
# All of this happens in main memory, not on a GPU. A base that was quantized to 4 or 8 bits in training is quantized
# and dequantized again, since the adapter was trained on these values.


def merged_model(plan: Plan, ancestor: Ancestor, origin: dict[str, Any]) -> Any:
    """Returns a plan's model with an adapter merged into it, in the plan's dtype.

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
    """Returns the model as the adapter was trained on it, in full precision."""
    dtype = ancestor.dtype or plan.arguments.model_init_kwargs.get(dtype_key) or "float32"
    loading, kind = {dtype_key: dtype, **origin}, model_class(plan.model.path, **origin)
    if ancestor.quantization is None:
        return kind.from_pretrained(plan.model.path, **loading)
    quantization = BitsAndBytesConfig(**ancestor.quantization)
    packed = kind.from_pretrained(plan.model.path, quantization_config=quantization, device_map={"": "cpu"}, **loading)
    print(f"the model of {ancestor.name} was quantized: dequantizing it to merge its adapter", flush=True)
    return packed.dequantize()


# Merges an adapter into the weights by PEFT's own arithmetic, one module at a time.
#
# PEFT adds the change to a weight in the weight's dtype. This loses changes of bfloat16 weights even if a larger dtype
# is requested, and rounds twice for a smaller dtype. So each weight is float32 while its adapter is added, then rounded
# once. At most one weight exists twice at a time.


def merged(model: Any, dtype: torch.dtype, otherwise: str) -> Any:
    """Returns a PeftModel's base with the active adapter merged, with all weights in one dtype.

    The PeftModel is consumed. 4-bit and 8-bit weights must be dequantized before: PEFT would quantize the merged
    weights again. Raises Refused for an adapter that PEFT cannot merge; otherwise: the fix in its message.
    """
    try:
        return _merge_copy(model, dtype)
    except (RuntimeError, ValueError, NotImplementedError) as problem:
        if isinstance(problem, torch.OutOfMemoryError):
            raise
        first = (str(problem).splitlines() or [""])[0]
        raise Refused.of("PEFT cannot merge this adapter", because=first, fix=otherwise) from problem


def _merge_copy(model: Any, dtype: torch.dtype) -> Any:
    _untie(model)
    for base, layers in _adapted(model):
        for weight in _weights(base):
            weight.data = weight.data.to(torch.float32)
        for layer in layers:
            layer.merge()
        for weight in _weights(base):
            weight.data = weight.data.to(dtype)
    with warnings.catch_warnings():
        # PEFT warns that an adapter is already merged, and about tied weights, which are handled below.
        warnings.simplefilter("ignore")
        plain = model.merge_and_unload()
    return rounded(plain, dtype)


def rounded(model: Any, dtype: torch.dtype) -> Any:
    """Returns the model with all weights in one dtype. Untrained buffers, such as frequencies, stay unchanged."""
    for weight in model.parameters():
        if weight.is_floating_point():
            weight.data = weight.data.to(dtype)
    return model


def _adapted(model: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Yields each module of the base that has adapters, with them."""
    by_module: dict[int, tuple[Any, list[Any]]] = {}
    for layer in model.modules():
        if isinstance(layer, BaseTunerLayer) and layer.active_adapters:
            base = layer.get_base_layer()
            by_module.setdefault(id(base), (base, []))[1].append(layer)
    yield from by_module.values()


def _weights(base: Any) -> Iterator[Any]:
    return (weight for weight in base.parameters(recurse=False) if weight.is_floating_point())


def _untie(model: Any) -> None:
    """Gives the output layer its own weight if it shares the embedding's and only one of both has an adapter.

    PEFT would add the change to the shared weight, and so to both.
    """
    base = model.get_base_model()
    ends = (base.get_input_embeddings(), base.get_output_embeddings())
    first, last = (end.get_base_layer() if isinstance(end, BaseTunerLayer) else end for end in ends)
    is_tied = last is not None and getattr(first, "weight", None) is last.weight
    if is_tied and any(isinstance(end, BaseTunerLayer) for end in ends):
        last.weight = torch.nn.Parameter(last.weight.detach().clone(), requires_grad=False)
        base.config.get_text_config().tie_word_embeddings = False
        base.config.tie_word_embeddings = False


# Continues with another run's adapter in a live trainer, and proves that its tensors are unchanged.
#
# TRL creates a new adapter of the same shape, as for any run, and the tensors are copied into it. So the KL term's
# reference is the model without its adapter on every release; newer releases would use a copy of an existing adapter.
# Seen: trl 0.29.1 and 1.16.0, but not 0.14.0 to 0.23.1 (grpo_trainer.py, `add_adapter("ref", ...)`).


_SHOWN = 4


def continue_adapter(trainer: Any, ancestor: Ancestor) -> None:
    """Copies the adapter's tensors into the trainer's own adapter. Raises Refused if they differ afterwards."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    tensors = adapter_tensors(ancestor)
    try:
        set_peft_model_state_dict(model, tensors)
    except (RuntimeError, KeyError) as problem:
        raise _another_shape(ancestor, str(problem)) from problem
    refuse_other_tensors(model, tensors, ancestor)
    if trainer.args.use_vllm and trainer.seams.value("_last_loaded_step") is not None:
        trainer._last_loaded_step = -1  # trl 0.14 assumes that vLLM is up to date at step 0
    if trainer.is_world_process_zero():
        print(f"continues with the adapter of {ancestor.name}, {len(tensors)} unchanged tensors", flush=True)


def adapter_tensors(ancestor: Ancestor) -> dict[str, Any]:
    """Returns an adapter's tensors, by the names in its file."""
    revision = {} if ancestor.commit is None else {"revision": ancestor.commit}
    tensors: dict[str, Any] = load_peft_weights(ancestor.path, device="cpu", **revision)
    return tensors


def refuse_other_tensors(model: Any, tensors: dict[str, Any], ancestor: Ancestor) -> None:
    """Raises Refused if the model's adapter differs in any number from the file."""
    live = get_peft_model_state_dict(model, save_embedding_layers=False)
    base = dict(model.named_parameters())
    missing = sorted(set(live) - set(tensors))
    other = sorted(name for name in live if name in tensors and not _same(live[name], tensors[name]))
    # The adapter of a model with added tokens may include that model's embeddings, which the model already has.
    extra = [name for name in tensors if name not in live]
    other += sorted(name for name in extra if name not in base or not _same(base[name], tensors[name]))
    if missing or other:
        differences = [f"{name} is missing" for name in missing] + [f"{name} differs" for name in other]
        more = f", and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
        raise _another_shape(ancestor, f"{'; '.join(differences[:_SHOWN])}{more}")


def _same(live: Any, written: Any) -> bool:
    """Whether a tensor equals the written values, rounded to its own dtype."""
    own = live.detach().cpu()
    return bool(own.shape == written.shape and torch.equal(own, written.to(own.dtype)))


def _another_shape(ancestor: Ancestor, because: str) -> Refused:
    return Refused.of(
        f"the adapter of {ancestor.name} does not fit this model and these modules",
        because=because,
        fix="name the model that it was trained on, or train a new adapter on the merged model",
    )
