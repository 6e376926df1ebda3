"""A local model is a folder with a config.json.

transformers treats a path that does not exist as a hub id, and its error names the hub. The same happens with a web
address, a variable (nothing expands it) and a misspelt folder. A folder has no revision. A folder or hub repository
with only an adapter_config.json is an adapter: TRL loads whole models, and puts a new adapter on them. To use the
result of a run, write `model.from_run`. A single file, such as one in GGUF, is not a model that TRL can load.
"""

import os
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.user_files.local_files import local_path, near_path, path_slip
from grpo_recipes.user_files.model_config import read_adapter, snapshot_in_cache

ID = "MDL001"
_ADDRESS = r"(?a)(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/([\w.-]+/[\w.-]+)(?:/tree/([\w.-]+))?/?"
KEY, REVISION = "model.model_name_or_path", "model_init_kwargs.revision"
MOST_NEIGHBOURS = 200


def check(context: Context) -> Iterator[Finding]:
    value = context.text(KEY)
    path = local_path(value, context.source.directory(("model", "model_name_or_path")))
    if path is None:
        yield from _hub_id(context, value)
    elif os.path.isfile(path):
        kind = "a GGUF file" if value.endswith(".gguf") else "a file"
        why = ["TRL loads a folder with a config.json, weights and a tokenizer", f"looked at {path}"]
        fix = "the folder or hub id of the model that it was made of"
        yield context.finding(f"{value} is {kind}, not a model folder", KEY, why, fix=fix)
    elif not os.path.isdir(path):
        near = near_path(value, path, folders=True)
        fix = f"model_name_or_path: {near}, if you meant that" if near else "a folder, or a hub id: owner/name"
        yield context.finding(f"folder {value} does not exist", KEY, f"looked for {path}", fix=fix)
    elif not os.path.isfile(os.path.join(path, "config.json")):
        yield _no_model(context, value, path)
    if path is not None and context.is_given(REVISION) and context.value(REVISION) is not None:
        message, because = f"a folder has no revision {context.value(REVISION)}", "only the hub has revisions"
        yield context.wrong(message, REVISION, because, severity="warning")


def _no_model(context: Context, value: str, path: str) -> Finding:
    adapter = read_adapter(path)
    if adapter is not None:
        return _adapter(context, value, path, adapter)
    if os.path.isfile(os.path.join(path, "plan.json")):
        because = [f"{path} has a plan.json", "the trained model of a run is in its final/"]
        message = f"{value} is a run folder, not a model"
        return context.finding(message, KEY, because, fix=f"from_run: {value}", patch=_from_run(value))
    why = f"{path} has no config.json"
    return context.finding(f"{value} is not a model folder", KEY, why, fix="a folder written by save_pretrained")


def _adapter(context: Context, value: str, folder: str, adapter: Mapping[str, object]) -> Finding:
    """The finding for an adapter in a folder."""
    base = adapter.get("base_model_name_or_path") or "an unnamed model"
    message = f"{value} is an adapter ({adapter.get('peft_type') or 'PEFT'}) of {base}, not a model"
    because = ["TRL loads a whole model and puts a new adapter on it", f"{folder} has no config.json"]
    fix = f"from_run: {value}, which merges it into its model; add lora: {{continue: true}} to train it further"
    return context.finding(message, KEY, because, fix=fix, patch=_from_run(value))


def _from_run(value: str) -> list[Patch]:
    return [Patch(("model", "model_name_or_path"), remove=True), Patch(("model", "from_run"), value)]


def _hub_id(context: Context, value: str) -> Iterator[Finding]:
    address = re.fullmatch(_ADDRESS, value) if ".co/" in value else None
    if address is not None:
        yield _address(context, value, address[1], address[2])
    elif slip := path_slip(value):
        yield _finding(context, f"{value}: {slip}", "a plain path, or one that begins with ~/")
    elif "://" in value:
        yield _finding(context, f"{value} is a web address", "the folder with the downloaded model, or its hub id")
    elif value.count("/") > 1 or not all(part and part.strip() == part for part in value.split("/")):
        path = os.path.join(context.source.directory(("model", "model_name_or_path")), value)
        near = near_path(value, path, folders=True)
        fix = f"model_name_or_path: ./{near}, if you meant that" if near else f"./{value} for a folder"
        yield _finding(context, f"{value} is neither a folder nor a hub id", fix)
    elif (
        (snapshot := snapshot_in_cache(value)) and (adapter := read_adapter(str(snapshot))) and not _is_model(snapshot)
    ):
        yield _adapter(context, value, str(snapshot), adapter)
    elif near := _near_folder(context, value):
        message = f"{value} is read as a hub id, but the recipe's folder has a folder {near}"
        because = "if there is no such folder, transformers looks on the hub"
        yield context.finding(message, KEY, because, severity="warning", fix=f"model_name_or_path: ./{near}")


def _is_model(snapshot: Path) -> bool:
    return (snapshot / "config.json").is_file()


def _near_folder(context: Context, value: str) -> str | None:
    """The model folder next to the recipe with a similar name."""
    folder, name = os.path.split(value)
    parent = os.path.join(context.source.directory(("model", "model_name_or_path")), folder)
    try:
        with os.scandir(parent) as entries:
            names = [entry.name for entry in islice(entries, MOST_NEIGHBOURS)]
    except OSError:
        return None
    models = [neighbour for neighbour in names if os.path.isfile(os.path.join(parent, neighbour, "config.json"))]
    near = nearest_words(name, models, cutoff=0.8) if models else []
    return os.path.join(folder, near[0]) if near else None


def _finding(context: Context, message: str, fix: str) -> Finding:
    because = ["a hub id is name or owner/name", "the recipe's folder has no such folder"]
    return context.finding(message, KEY, because, fix=fix)


def _address(context: Context, value: str, model: str, revision: str | None) -> Finding:
    """The finding for the address of a model's page, with its hub id."""
    patch = [Patch(("model", "model_name_or_path"), model)]
    if revision not in (None, "main"):
        patch.append(Patch(("model", "model_revision"), revision))
    because = ["transformers takes a hub id, owner/name"]
    return context.finding(f"{value} is a web address, not a hub id", KEY, because, patch=patch)
