"""Loads the trained model of a run folder, as it was trained or with plain weights instead of packed ones."""

from pathlib import Path
from typing import Any

import torch
from transformers import BitsAndBytesConfig

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.planned import (
    dtype_keyword,
    model_path,
    model_revision,
    own_model_folder,
    trust_remote_code,
)
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.model.adapters import with_adapter
from grpo_recipes.worker.model.own_model import code_in, model_class, why_not_whole, write_own_model
from grpo_recipes.worker.shims.cache_keyword import pass_by_old_name

FINAL = "final"


def make_own_model(plan: Plan, folder: Path) -> None:
    """Makes the base model that the run wrote into its folder again, if it was removed.

    The same model, adapter and seed give the same files. Raises Refused if other files are there.
    """
    if not (plan.trains_a_copy and is_adapter(plan)):
        return
    path = own_model_folder(plan, folder)
    if not path.is_dir() or code_in(path) is not None:
        write_own_model(plan, path)
    elif (because := why_not_whole(path)) is not None:
        raise Refused.of(f"{path} changed after it was written", because=because, fix="remove it; it is built again")


def is_adapter(plan: Plan) -> bool:
    """Whether the run trained an adapter, not the model itself."""
    return plan.arguments.LoraConfig is not None


def is_packed(plan: Plan) -> bool:
    """Whether the base weights were packed into 4 or 8 bits while the adapter was trained."""
    return plan.arguments.BitsAndBytesConfig is not None


def device_of(plan: Plan) -> str:
    """Returns the device for the model: a GPU if the run used one and this machine has one."""
    return "cuda" if plan.world.device == "cuda" and torch.cuda.is_available() else "cpu"


def load_trained(plan: Plan, folder: Path, *, packed: bool) -> Any:
    """Returns the trained model, a PeftModel if an adapter was trained. packed: keep packed weights packed."""
    if not is_adapter(plan):
        return load_plain(folder / FINAL, plan)
    base = load_base(plan, folder, packed=packed)
    return with_adapter(base, folder / FINAL).eval()


def load_base(plan: Plan, folder: Path, *, packed: bool) -> Any:
    """Returns the adapter's base model, with its added tokens."""
    keywords: dict[str, Any] = dict(dtype_keyword(plan))
    if (packing := plan.arguments.BitsAndBytesConfig) is not None:
        keywords["quantization_config"] = BitsAndBytesConfig(**packing)
        keywords["device_map"] = {"": 0 if device_of(plan) == "cuda" else "cpu"}
    model = _load(model_path(plan, folder), plan, revision=model_revision(plan), **keywords)
    return model.dequantize() if is_packed(plan) and not packed else model


def load_plain(path: Path, plan: Plan, dtype: torch.dtype | str = "auto", gguf_file: str | None = None) -> Any:
    """Returns a folder's model as any user would load it. gguf_file: its file to read instead of the other weights."""
    name = next(iter(dtype_keyword(plan)), "dtype")  # torch_dtype before transformers 4.56
    return _load(str(path), plan, gguf_file=gguf_file, **{name: dtype})


def _load(path: str, plan: Plan, **keywords: Any) -> Any:
    trusted = {"trust_remote_code": True} if trust_remote_code(plan) else {}
    revision = {name: value for name, value in keywords.items() if name == "revision" and value is not None}
    kernel = plan.arguments.model_init_kwargs.get("attn_implementation")
    if kernel is not None and (device_of(plan) == "cuda" or kernel in ("eager", "sdpa")):
        keywords["attn_implementation"] = kernel
    kind = model_class(path, **revision, **trusted)
    keywords = {name: value for name, value in keywords.items() if value is not None}
    model = kind.from_pretrained(path, **keywords, **trusted)
    if trusted:
        pass_by_old_name(model)
    return (model if "device_map" in keywords else model.to(device_of(plan))).eval()
