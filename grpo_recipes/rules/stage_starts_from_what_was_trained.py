"""A recipe that starts from a run finds the trained model there.

`model.from_run` names a run folder with its trained model, one of its checkpoints, or a LoRA adapter of PEFT: a folder,
or a hub id in the local cache. TRL itself loads only whole models: it looks for anything else on the hub, or fails
because config.json is missing. The model of an adapter has to exist where the run, the adapter or `model_name_or_path`
says, and has the shape of the one that the adapter was trained on. The initialisations `pissa`, `olora`, `corda` and
`loftq` move a part of each weight into the adapter; the model that it was trained on is in no file, so nothing can
start from it.

grpo-run compares plan, record, tokenizer, chat template, adapter_config.json and weights of a run with the content
hashes that the run wrote. A file that is damaged, edited, missing or from another run is an error. `validate` reads
files of up to 16 MiB and checks only the size of larger ones; the command that starts a run reads all of them. A run of
an older grpo-run without hashes is a warning. A copy of a trained model, an adapter or a checkpoint is compared with
its grpo_run.json, also if `model_name_or_path` names it. A folder without it, as other programs write, is accepted
unchecked.
"""

import os
import re
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import model_config
from grpo_recipes.user_files.ancestor import NoStart, StartingPoint, ancestor_of, check_written_folder, why_no_model
from grpo_recipes.user_files.local_files import local_path
from grpo_recipes.user_files.model_config import read_model_config

ID = "MDL006"
KEY, MODEL = "model.from_run", "model.model_name_or_path"
SHAPE = ("model_type", "hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads")
STARTS = ("pissa", "olora", "corda", "loftq")


def check(context: Context) -> Iterator[Finding]:
    named = _model_section(context).get("model_name_or_path")
    path = (
        local_path(named, context.source.directory(("model", "model_name_or_path"))) if isinstance(named, str) else None
    )
    if path is not None and isinstance(why := check_written_folder(str(named), path), NoStart):
        yield context.finding(why.message, MODEL, why.because, fix=why.fix)
    if context.value(KEY) is None:
        return
    ancestor = ancestor_of(context.source)
    if isinstance(ancestor, NoStart):
        yield _finding(context, ancestor)
    elif ancestor is not None:
        yield from _of(context, ancestor)


def _finding(context: Context, why: NoStart) -> Finding:
    return context.finding(why.message, KEY, why.because, fix=why.fix)


def _of(context: Context, ancestor: StartingPoint) -> Iterator[Finding]:
    is_given = "model_name_or_path" in _model_section(context)
    start = str(ancestor.shape(context.facts).get("init_lora_weights")).lower()
    if ancestor.adapter is None and is_given:
        message = f"{ancestor.name} trained a whole model, but model_name_or_path names a different one"
        yield context.wrong(
            message, MODEL, f"{ancestor.weights} already has the whole model, its tokenizer and its chat template"
        )
    elif ancestor.method not in (None, "LORA"):
        because = ("grpo-run trains, continues and merges only LoRA adapters",)
        yield _finding(context, NoStart(f"{ancestor.name} is an adapter of type {ancestor.method}, not LORA", because))
    elif start.startswith(STARTS):
        because = (f"its init_lora_weights is {start}, which removes a part of each weight from the model",)
        fix = "train it again with init_lora_weights: true"
        yield _finding(context, NoStart(f"the model that {ancestor.name} was trained on is in no file", because, fix))
    elif is_given and ancestor.base is not None and ancestor.adapter is not None:
        yield from _base(context, ancestor, *ancestor.base)
    elif not is_given and (why := why_no_model(ancestor)) is not None:
        yield _finding(context, why)
    elif ancestor.is_old:
        message = f"{ancestor.name} has no content hashes, so grpo-run cannot detect damage"
        yield context.finding(message, KEY, "an older grpo-run wrote it", severity="warning")


def _base(context: Context, ancestor: StartingPoint, path: str, revision: str | None) -> Iterator[Finding]:
    """The finding for a model of the recipe that is not the one that the adapter was trained on."""
    named, own, trained = context.text(MODEL), model_config(context) or {}, read_model_config(path, revision) or {}
    both = [key for key in SHAPE if key in own and key in trained]
    other = next((key for key in both if own[key] != trained[key]), None)
    if other is not None:
        why = f"{other} is {trained[other]} in {path}, and {own[other]} in {named}"
        yield context.wrong(f"{ancestor.name} is an adapter of {path}, and does not fit {named}", MODEL, why, path)
    elif _stem(named) != _stem(path) and not os.path.isabs(path) and named.count("/") == 1 and named[0].isalnum():
        message = f"{ancestor.name} is an adapter of {path}, but model_name_or_path is {named}"
        because = "an adapter changes the weights that it was trained on"
        yield context.wrong(message, MODEL, because, path, severity="warning")


def _stem(name: str) -> str:
    """The name of a model without its owner and its quantization, since an adapter is often trained in 4 bits."""
    return re.sub(r"(-unsloth)?-bnb-[48]bit$", "", name.rpartition("/")[2].lower())


def _model_section(context: Context) -> dict[str, object]:
    model = context.source.values.get("model")
    return model if isinstance(model, dict) else {}
