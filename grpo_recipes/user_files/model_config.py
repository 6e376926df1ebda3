"""Computes the sizes of a model from its config.json alone."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from grpo_recipes.contract.files.regular_file import open_regular
from grpo_recipes.facts.released.shipped import table
from grpo_recipes.user_files.architecture import Architecture, read_architecture

_LARGEST_FILE_BYTES = 1_048_576
_LONGEST_REFERENCE = 256  # bytes; a commit has 40
_COMMIT = re.compile("[0-9a-f]{40}")
_OUTPUT = "lm_head"
_EMBEDDING = "model.embed_tokens"


def read_model_config(model: str, revision: str | None = None) -> dict[str, object] | None:
    """The config.json of a model: from a local folder, else from the local hub cache, else from the shipped table.

    model: a folder or a hub id; revision: of the hub. The table has well-known models at their main revision. None if
    none of the three has it; downloads nothing.
    """
    own = _read(Path(model, "config.json"))
    if own is not None or os.path.isdir(model) or not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", model):
        return own
    cached = snapshot_in_cache(model, revision)
    config = _read(cached / "config.json") if cached is not None else None
    return _well_known(model) if config is None and revision in (None, "main") else config


def read_processor(model: str, revision: str | None = None) -> Mapping[str, object]:
    """How a model's processor treats images: of a local folder or the local hub cache, {} where neither says it."""
    folder = Path(model) if os.path.isdir(model) else snapshot_in_cache(model, revision)
    configs = (
        []
        if folder is None
        else [_read(folder / f"{name}.json") for name in ("processor_config", "preprocessor_config")]
    )
    inner = (configs[0] or {}).get("image_processor") if configs else None
    return inner if isinstance(inner, Mapping) else (configs[1] or {}) if configs else {}


def read_adapter(folder: str) -> dict[str, object] | None:
    """The adapter_config.json of a folder with a PEFT adapter, None for any other folder."""
    return _read(Path(folder, "adapter_config.json"))


def snapshot_in_cache(model: str, revision: str | None = None, kind: str = "models") -> Path | None:
    """The folder of a model at a revision in the local hub cache, None if it is not cached; revision None is main.

    kind: "models" or "datasets".
    """
    folder = _hub_cache() / f"{kind}--{model.replace('/', '--')}"
    wanted = revision or "main"
    if Path(wanted).is_absolute() or ".." in Path(wanted).parts:
        return None  # a recipe may contain anything, and no revision may lead out of the cache
    try:
        with open_regular(folder / "refs" / wanted) as file:
            commit = file.read(_LONGEST_REFERENCE).decode().strip()
    except (OSError, ValueError):
        commit = wanted
    snapshot = folder / "snapshots" / commit
    return snapshot if ".." not in snapshot.parts and os.path.isdir(snapshot) else None


def commit_in_cache(name: str, revision: str | None = None, kind: str = "models") -> str | None:
    """The commit of a hub revision, if known here: the revision itself if it is one, or from the cache."""
    if revision is not None and _COMMIT.fullmatch(revision):
        return revision
    snapshot = snapshot_in_cache(name, revision, kind)
    return snapshot.name if snapshot is not None and _COMMIT.fullmatch(snapshot.name) else None


def _hub_cache() -> Path:
    """The download folder of huggingface_hub. Source: huggingface_hub 2.0, constants.py."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(name):
            return Path(os.path.expanduser(os.environ[name]))
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    home = os.environ.get("HF_HOME") or os.path.join(caches, "huggingface")
    return Path(os.path.expanduser(home), "hub")


def _well_known(model: str) -> dict[str, object] | None:
    data = table("models")
    row = data["models"].get(model)
    if row is None:
        return None
    config = {key: value for key, value in zip(data["columns"], row, strict=False) if value is not None}
    return {**config, "architectures": [config["architectures"]]}


def _read(file_path: Path) -> dict[str, object] | None:
    try:
        with open_regular(file_path) as file:
            content = file.read(_LARGEST_FILE_BYTES + 1)
        if len(content) > _LARGEST_FILE_BYTES:
            return None
        value = json.loads(content)
    except (OSError, ValueError, RecursionError):
        return None
    return _with_names_alone(value) if isinstance(value, dict) else None


def _with_names_alone(config: dict[str, object]) -> dict[str, object]:
    """The config without a model_type that is not text, and without architectures that are not a list of texts."""
    architectures = config.get("architectures")
    if not isinstance(config.get("model_type"), str):
        config.pop("model_type", None)
    if not isinstance(architectures, list) or not all(isinstance(name, str) for name in architectures):
        config.pop("architectures", None)
    return config


def parameter_count(config: Mapping[str, object]) -> int | None:
    """All parameters of a decoder, tied embeddings once; None for a config that is not covered.

    Covers the families of read_architecture, as causal language models.
    """
    sizes = read_architecture(config)
    return None if sizes is None else sizes.parameters()


def numbers_per_token(config: Mapping[str, object]) -> int | None:
    """The keys and values that generation caches per token, over all layers; None for a config that is not covered."""
    sizes = read_architecture(config)
    return None if sizes is None else 2 * sizes.layers * sizes.key_value_heads * sizes.head_dim


def lora_parameter_count(config: Mapping[str, object], r: int, target_modules: str | Sequence[str]) -> int | None:
    """The parameters of a plain LoRA adapter, r * (inputs + outputs) for each module that it adapts.

    target_modules: "all-linear", which excludes the output layer, or names and endings as PEFT matches them. None if
    uncertain: any other string, which is a regular expression, embeddings, a tied output layer, no match. Holds for
    bias "none" without modules_to_save, DoRA, rank_pattern and layers_to_transform.
    """
    sizes = _dense(config)
    if sizes is None or r < 1:
        return None
    modules = {
        f"model.layers.{layer}.{name}": shape
        for layer in range(sizes.layers)
        for name, shape in sizes.linears().items()
    }
    if isinstance(target_modules, str):
        if target_modules.lower() != "all-linear":
            return None
        adapted = list(modules.values())
    else:
        if any(_is_target(_EMBEDDING, target) for target in target_modules):
            return None
        if sizes.is_tied and any(_is_target(_OUTPUT, target) for target in target_modules):
            return None
        modules[_OUTPUT] = (sizes.hidden, sizes.vocabulary)
        adapted = [s for name, s in modules.items() if any(_is_target(name, module) for module in target_modules)]
    return sum(r * (inputs + outputs) for inputs, outputs in adapted) or None


def _is_target(module: str, target: str) -> bool:
    return module == target or module.endswith(f".{target}")


def _dense(config: Mapping[str, object]) -> Architecture | None:
    """The architecture of a model without experts, None for any other or one that is not covered."""
    architecture = read_architecture(config)
    return None if architecture is None or architecture.experts is not None else architecture
