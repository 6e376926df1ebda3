"""Reads what `model.from_run` names: a run folder, one of its checkpoints, or a PEFT adapter of another program.

Reads plan.json, run.json and adapter_config.json as untrusted text; loads and downloads nothing.
"""

import hashlib
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from grpo_recipes.contract.files.bounded_json import parse_json
from grpo_recipes.contract.files.regular_file import read_text
from grpo_recipes.facts.facts import Facts
from grpo_recipes.user_files.local_files import local_path
from grpo_recipes.user_files.model_config import commit_in_cache, read_adapter, snapshot_in_cache
from grpo_recipes.yaml.compose import Source, once_for_a_source

KEY = ("model", "from_run")
PLAN_FILE, RECORD_FILE = "plan.json", "run.json"
_LARGEST_BYTES = 32 * 1024**2
_INTEGRITY_FILE = "integrity.json"
_PLAN_FORMAT = 1
# The keys of adapter_config.json that identify the base model, and not the adapter.
_OF_THE_FILE = (
    "peft_type",
    "auto_mapping",
    "base_model_name_or_path",
    "revision",
    "inference_mode",
    "task_type",
    "peft_version",
)


class NoStart(NamedTuple):
    """Why a recipe cannot start from what it names, and how to fix it."""

    message: str
    because: tuple[str, ...] = ()
    fix: str | None = None


class StartingPoint(NamedTuple):
    """The starting point of a recipe.

    place: as named, an absolute folder or a hub id. weights: the trained folder, or the hub id; folder: its files here.
    commit: of the hub. run: the run folder, None for another program's adapter, whose plan is {}. adapter: its
    adapter_config.json, None if the whole model was trained. is_old: from an older grpo-run, without content hashes.
    """

    place: str
    weights: str
    folder: str
    commit: str | None
    run: str | None
    plan: Mapping[str, Any]
    plan_sha256: str | None
    step: int | None
    adapter: Mapping[str, Any] | None
    is_old: bool = False

    @property
    def name(self) -> str:
        """The name of the starting point in messages."""
        return str(self.plan.get("name") or os.path.basename(self.place))

    @property
    def base(self) -> tuple[str, str | None] | None:
        """Path or hub id of the model that was trained, with its revision; None if the adapter names none.

        For a whole model it is the trained model itself.
        """
        if self.adapter is None:
            return self.weights, None
        if self.run is None:
            named, revision = self.adapter.get("base_model_name_or_path"), self.adapter.get("revision")
            return (str(named), None if revision is None else str(revision)) if named else None
        own = own_model(self.plan)
        if own is not None:
            return os.path.join(self.run, own), None
        model = _map(self.plan.get("model"))
        revision = model.get("commit") or model.get("revision")
        return str(model.get("path")), None if revision is None else str(revision)

    def shape(self, facts: Facts) -> dict[str, Any]:
        """The adapter's LoraConfig: as the run's recipe set it, else the values in its file that differ from PEFT's
        defaults.

        {} for a whole model.
        """
        planned = _map(_map(self.plan.get("arguments")).get("LoraConfig"))
        given = planned or (self.adapter or {})
        settings = {key: value for key, value in given.items() if key not in _OF_THE_FILE}
        if planned:
            return settings
        fields = facts.fields("LoraConfig") or {}
        default = {name: fields[name].default for name in settings if name in fields}
        chosen = {key: value for key, value in settings.items() if value and value != default.get(key)}
        targets = chosen.get("target_modules")
        return {**chosen, "target_modules": sorted(targets)} if isinstance(targets, list) else chosen

    @property
    def method(self) -> str | None:
        """PEFT's name for the kind of adapter, LORA for one of a run; None for a whole model."""
        return None if self.adapter is None else str(self.adapter.get("peft_type") or "LORA")

    @property
    def quantization(self) -> dict[str, Any] | None:
        """The BitsAndBytesConfig of its training, None if the model was not quantized or that is unknown."""
        return {**_map(_map(self.plan.get("arguments")).get("BitsAndBytesConfig"))} or None

    @property
    def dtype(self) -> str | None:
        """The data type in which the run loaded its model, None if unknown."""
        loaded = _map(_map(self.plan.get("arguments")).get("model_init_kwargs"))
        dtype = loaded.get("dtype") or loaded.get("torch_dtype")
        return dtype if isinstance(dtype, str) else None

    @property
    def added_tokens(self) -> frozenset[str]:
        """The tokens that the run added to its model."""
        tokens = _map(self.plan.get("tokenizer")).get("add_tokens")
        return frozenset(map(str, tokens)) if isinstance(tokens, list) else frozenset()

    @property
    def chat_template(self) -> str | None:
        """The chat template file of its training, None for the model's own."""
        written = os.path.join(self.folder, "chat_template.jinja")
        if self.adapter is None or os.path.isfile(written):
            return written if self.adapter is not None else None
        path = _map(self.plan.get("tokenizer")).get("chat_template_path")
        return path if isinstance(path, str) else None


def why_no_model(point: StartingPoint) -> NoStart | None:
    """Why the base model of an adapter is unknown or missing, None if it is available."""
    if point.base is None:
        because = ("its adapter_config.json has no base_model_name_or_path",)
        return NoStart(f"the adapter {point.place} does not name its model", because, "model_name_or_path: the model")
    path = point.base[0]
    if not os.path.isabs(path) or os.path.isdir(path):
        return None
    whose = "the run" if point.run is not None else "its adapter_config.json"
    because = (f"{whose} names {path}, which is not a folder",)
    return NoStart(f"the model of {point.name} is missing", because, "model_name_or_path: the path of that model")


def own_model(plan: Mapping[str, Any]) -> str | None:
    """The base model within a run folder, None if the run used the planned one itself."""
    if _map(plan.get("tokenizer")).get("add_tokens"):
        return "extended_model"
    return "merged_model" if _map(plan.get("ancestor")).get("use") == "merge" else None


@once_for_a_source
def ancestor_of(source: Source) -> StartingPoint | NoStart | None:
    """The starting point of a recipe, or why it has none; None for a recipe that only names a model."""
    model = source.values.get("model")
    named = model.get("from_run") if isinstance(model, dict) else None
    return read_ancestor(named, source.directory(KEY)) if isinstance(named, str) and named else None


def continues(source: Source) -> bool:
    """Whether a recipe continues training the adapter that it starts from."""
    lora = source.values.get("lora")
    return isinstance(lora, dict) and lora.get("continue") is True


def read_ancestor(named: str, directory: str) -> StartingPoint | NoStart:
    """The starting point that is named, relative to a directory. Trusts only its own files."""
    path = local_path(named, directory)
    if path is None:
        return _of_the_hub(named)
    if not os.path.isdir(path):
        return NoStart(f"there is no folder {named}", (f"looked for {path}",))
    if _is_run(path):
        return _of_a_run(named, path, path, os.path.join(path, "final"))
    parent, name = os.path.split(path)
    if name == "final" and _is_run(parent):
        return _of_a_run(named, path, parent, path)
    above, folder = os.path.split(parent)
    if folder == "checkpoints" and _is_run(above):
        return _of_a_run(named, path, above, path)
    adapter = read_adapter(path)
    if adapter is not None:
        return _of_a_folder(named, path, adapter)
    because = (f"{path} has neither {PLAN_FILE} nor adapter_config.json",)
    is_model = os.path.isfile(os.path.join(path, "config.json"))
    fix = f"model_name_or_path: {named}" if is_model else None
    return NoStart(f"{named} is neither a run nor an adapter", because, fix)


def _of_a_folder(named: str, path: str, adapter: Mapping[str, Any]) -> StartingPoint | NoStart:
    outcome = check_written_folder(named, path)
    if isinstance(outcome, NoStart):
        return outcome
    return StartingPoint(path, path, path, None, None, {}, None, None, adapter, is_old=outcome)


def check_written_folder(named: str, path: str) -> NoStart | bool:
    """Why a folder differs from its grpo_run.json, else whether that is old and has no content hashes."""
    if not os.path.lexists(os.path.join(path, "grpo_run.json")):
        return False
    from grpo_recipes.contract.integrity.used_run import (  # not needed for models of others
        check_used_folder,
        how_to_mend,
    )

    used = check_used_folder(Path(path), contents=False)
    if used.fault is None:
        return used.is_old
    return NoStart(f"{named}: {used.fault.words}", (f"it {used.fault.because}",), how_to_mend(used.fault, is_run=False))


def _is_run(folder: str) -> bool:
    """Whether a folder is a run's, even if its plan is missing."""
    return any(os.path.isfile(os.path.join(folder, name)) for name in (PLAN_FILE, _INTEGRITY_FILE))


def _of_the_hub(named: str) -> StartingPoint | NoStart:
    snapshot = snapshot_in_cache(named) if named.count("/") == 1 and all(named.split("/")) else None
    adapter = None if snapshot is None else read_adapter(str(snapshot))
    if snapshot is not None and adapter is not None:
        return StartingPoint(named, named, str(snapshot), commit_in_cache(named), None, {}, None, None, adapter)
    if snapshot is not None:
        because = (f"{snapshot} has no adapter_config.json",)
        return NoStart(f"{named} is not an adapter", because, f"model_name_or_path: {named}")
    because = ("if it is not a folder, it is a hub adapter, and the local cache does not have it",)
    return NoStart(
        f"{named} is neither a folder nor in the hub cache", because, f"hf download {named}, or ./{named} for a folder"
    )


def _of_a_run(named: str, folder: str, run: str, weights: str) -> StartingPoint | NoStart:
    text = _text(os.path.join(run, PLAN_FILE))
    plan = _parse(text)
    if text is None or plan.get("plan") != _PLAN_FORMAT:
        because = (f"{run} is not a run folder in this format",)
        return NoStart(f"{named}: its {PLAN_FILE} cannot be read", because, "restore it from a copy")
    record = _parse(_text(os.path.join(run, RECORD_FILE)))
    if not os.path.isdir(weights):
        return _why_no_model_yet(named, run, plan, record)
    adapter = read_adapter(weights)
    from grpo_recipes.contract.integrity.used_run import (  # not needed for recipes of a model
        check_used_run,
        how_to_mend,
    )

    own = None if adapter is None else own_model(plan)
    used = check_used_run(Path(run), os.path.relpath(weights, run), own_model=own, contents=False)
    if used.fault is not None:
        return NoStart(f"{named}: {used.fault.words}", (f"it {used.fault.because}",), how_to_mend(used.fault))
    if adapter is None and not os.path.isfile(os.path.join(weights, "config.json")):
        return NoStart(f"{named} has no trained weights", (f"{weights} holds neither a model nor an adapter",))
    step = record.get("final_step", record.get("step"))
    if os.path.basename(weights) != "final":
        step = int(number) if (number := os.path.basename(weights).rpartition("-")[2]).isdecimal() else None
    digest = hashlib.sha256(text.encode()).hexdigest()
    known = step if isinstance(step, int) else None
    return StartingPoint(folder, weights, weights, None, run, plan, digest, known, adapter, used.is_old)


def _why_no_model_yet(named: str, run: str, plan: Mapping[str, Any], record: Mapping[str, Any]) -> NoStart:
    """The reason for a run without a trained model."""
    if plan.get("smoke"):
        return NoStart(f"{named} is a trial, which keeps no model", ("it ran with --smoke",))
    status = record.get("status")
    because = f"its {RECORD_FILE} says {status}" if isinstance(status, str) else "the run has not started"
    checkpoint = record.get("checkpoint")
    is_over = status == "completed"  # its final/ was removed, so nothing is left to continue from
    fix = f"grpo-run {shlex.quote(run)}" + (" trains it again" if is_over else " --resume first")
    if isinstance(checkpoint, str):
        fix += f", or from_run: {os.path.join(run, 'checkpoints', os.path.basename(checkpoint))}"
    return NoStart(f"{named} has no trained model in final/", (because,), fix)


def _text(path: str) -> str | None:
    try:
        return read_text(path, _LARGEST_BYTES)
    except (OSError, ValueError):
        return None


def _parse(text: str | None) -> Mapping[str, Any]:
    try:
        return _map(parse_json(text.encode())) if text is not None else {}
    except ValueError:
        return {}


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
