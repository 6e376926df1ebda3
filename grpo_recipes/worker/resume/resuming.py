"""Chooses the checkpoint that a run resumes from: the newest complete one, if it belongs to this run."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

from grpo_recipes.contract.files.bounded_json import read_json
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.contract.integrity.allowed import is_digest_allowed
from grpo_recipes.contract.integrity.checkpoints import judge_checkpoints, pickles
from grpo_recipes.contract.integrity.manifest import (
    WITHOUT_DIGESTS,
    Manifest,
    NotWhole,
    checkpoint_manifest,
    faults,
    refuse,
)
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.checkpoints.checkpoint import package_versions

Found = TypeVar("Found")
_SHOWN = 6
LENGTHS = ("GRPOConfig.max_steps", "GRPOConfig.num_train_epochs")
# A longer run has more episodes of the same sequence, so their number may differ.
_EPISODES = ("data.made.episodes", "data.rows")


def checkpoint_to_resume(folder: Path, plan: Plan, *, contents: bool = True) -> tuple[Path | None, list[str]]:
    """Returns the checkpoint that --resume continues from, None to start over, and lines to print about it.

    contents: compare its files with their digests, which one process does for all; the others call agreed(). Raises
    Refused if there are checkpoints but none is complete, if the run has become a different experiment, and if reading
    a checkpoint would run someone else's code.
    """
    skipped: list[tuple[str, str]] = []
    for judged in judge_checkpoints(folder / "checkpoints", contents=contents):
        checkpoint, manifest = judged.folder, judged.manifest
        if manifest is not None:
            lines = _of_this_run(checkpoint, manifest, folder, plan, contents=contents)
            left_out = [f"skipped {name}: {reason}" for name, reason in skipped]
            return checkpoint, [*left_out, *lines, f"resumed from {checkpoint.name}"]
        skipped.append((checkpoint.name, str(judged.reason)))
    if skipped:
        raise Refused.of(
            "no checkpoint is complete, so the run cannot be resumed",
            because=[f"{name}: {reason}" for name, reason in skipped],
            fix=f"restore one, or remove {folder / 'checkpoints'} to start over with --resume",
        )
    return None, ["no checkpoint was written yet: training starts at step 0"]


def checkpoint_to_extend(folder: Path, plan: Plan, *, contents: bool = True) -> tuple[Path, list[str]]:
    """Returns the checkpoint of the run that this one extends, and lines to print about it. Changes nothing.

    contents: as for checkpoint_to_resume. Raises Refused if it is incomplete, not the plan's, or if more than the
    length of the run differs.
    """
    assert plan.extends is not None
    checkpoint = Path(plan.extends.path)
    try:
        manifest = checkpoint_manifest(checkpoint)
        refuse(faults(checkpoint, manifest.files, contents=contents))
    except NotWhole as problem:
        raise Refused.of(
            f"{checkpoint} of {plan.extends.name} is incomplete, so the run cannot continue from it",
            because=str(problem),
            fix="restore it, or extend the run again",
        ) from problem
    digests = {name: digest.sha256 for name, digest in manifest.files.items() if digest.sha256 is not None}
    if digests != plan.extends.files:
        raise Refused.of(f"{checkpoint} has changed since the plan was made", fix="plan again")
    besides = LENGTHS if plan.data.made is None else (*LENGTHS, *_EPISODES)
    lines = _of_this_run(checkpoint, manifest, folder, plan, contents=contents, besides=besides)
    return checkpoint, [*lines, f"extends {plan.extends.name} from {checkpoint.name}"]


def agree_on(value: Found) -> Found:
    """Returns the first rank's value, such as a checkpoint. All ranks must call it, once they are connected."""
    from accelerate.utils import broadcast_object_list

    of_first: list[Found] = broadcast_object_list([value], from_process=0)
    return of_first[0]


def _of_this_run(
    checkpoint: Path, manifest: Manifest, folder: Path, plan: Plan, *, contents: bool, besides: tuple[str, ...] = ()
) -> list[str]:
    """Returns lines to print about a checkpoint to continue from. Raises Refused if it must not be used.

    besides: values of the plan that may differ.
    """
    name, count, planned = checkpoint.name, manifest.world_size, plan.expect.world_size
    if count != planned:
        raise Refused.of(
            f"{name} was written by {_processes(count)}, but the plan has {_processes(planned)}",
            because="each process has its own part of a checkpoint",
            fix=f"resume with {count}, or start a new run in a different folder",
        )
    lines = _other_experiment(name, manifest, folder, is_accepted=plan.accept_drift, besides=besides)
    now = package_versions()
    others = [
        f"{package} {was} -> {now[package]}"
        for package, was in manifest.stack.items()
        if package in now and was != now[package]
    ]
    if others:
        lines.append(
            f"the stack differs from that of {name}, so the result is not bit-for-bit the same: {', '.join(others)}"
        )
    if contents and manifest.format == WITHOUT_DIGESTS:
        lines.append(f"{name} has no content hashes (older grpo-run): only the sizes of its files were compared")
    if contents:
        _refuse_strange_pickles(checkpoint, manifest)
    return lines


def _refuse_strange_pickles(checkpoint: Path, manifest: Manifest) -> None:
    """Raises Refused for files that may run code when read, unless this user has allowed them, or wrote them."""
    found = pickles(checkpoint, manifest)
    if found is None or is_digest_allowed(found[1]):
        return
    names, sha256 = found
    again = f"grpo-run {shlex.quote(str(checkpoint.parents[1]))} --resume"
    raise Refused.of(
        f"{checkpoint.name} was not written by you, and reading it may run code",
        because=f"{join_items(names, _SHOWN)} are pickles that no run of yours wrote here and you have not allowed",
        fix=f"if you trust who wrote them, {again} --allow-code {sha256}",
    )


def _processes(count: int) -> str:
    return f"{count} process{'' if count == 1 else 'es'}"


def _other_experiment(
    name: str, manifest: Manifest, folder: Path, *, is_accepted: bool, besides: tuple[str, ...]
) -> list[str]:
    """Returns the line about an accepted difference of the experiment. Raises Refused if it was not accepted."""
    was, now = (
        {key: value for key, value in values.items() if key not in besides}
        for values in (manifest.experiment, experiment(folder))
    )
    differences = list(list_changes(was, now))
    if not differences:
        return []
    more = f", and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
    text = f"{'; '.join(differences[:_SHOWN])}{more}"
    if is_accepted:
        return [f"a different experiment than that of {name}, as accepted: {text}"]
    raise Refused.of(
        f"plan.json has changed since {name} was written",
        because=text,
        fix="restore the old plan.json, or start a new run in a different folder",
    )


# In world, model, data and rewards: values for where something is, not what it is.
_PLACES = ("path", "engine", "num_nodes", "main_process_ip", "main_process_port", "files")
# In GRPOConfig: what is logged during training. The planner sets these; no setting is of this kind.
_PRINTED = ("save_strategy", "eval_strategy", "report_to", "run_name", "disable_tqdm")
_MADE_WITH = ("tools", "environment_class", "environment_classes", "rollout")
_STAGES = ("warm_start", *_MADE_WITH)
_WHOLE = ("tokenizer", "shims", "deepspeed", "data", "sources", "rewards", "world", "model", "vllm", *_STAGES)


def experiment(folder: Path) -> dict[str, Any]:
    """Returns the values of a run folder's plan.json that affect its weights, by name."""
    content = cast("dict[str, Any]", read_json(folder, "plan.json"))
    settings = content.get("settings", [])
    bookkeeping = {row["key"] for row in settings if row.get("kind") == "bookkeeping"}
    values_by_name: dict[str, Any] = {}
    for taker, values in content["arguments"].items():
        named = values.items() if isinstance(values, dict) else [("", values)]
        for key, value in named:
            name = f"{taker}.{key}".rstrip(".")
            if name not in bookkeeping and not (taker == "GRPOConfig" and key in _PRINTED):
                values_by_name[name] = value
    for part in _WHOLE:
        values_by_name |= _flat(part, content.get(part))
    for part in ("stop", "stop_token_ids"):
        values_by_name |= _flat(f"expect.{part}", content["expect"].get(part))
    return values_by_name


def _flat(name: str, value: Any) -> dict[str, Any]:
    """Returns one entry per value below a name; a file outside the folder counts by its digest, not its path."""
    if isinstance(value, list):
        value = {str(index): item for index, item in enumerate(value)}
    if not isinstance(value, dict):
        return {name: value}
    is_known = value.get("sha256") is not None or name == "world"
    flat: dict[str, Any] = {}
    for key, item in value.items():
        if not (is_known and key in _PLACES):
            flat |= _flat(f"{name}.{key}", item)
    return flat


def list_changes(was: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """Yields the differences: `GRPOConfig.beta 0.0 -> 0.04`."""
    for name in dict.fromkeys([*was, *now]):
        if was.get(name) != now.get(name):
            yield f"{name} {_value_text(was.get(name))} -> {_value_text(now.get(name))}"


def _value_text(value: Any) -> str:
    text = "none" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 40 else f"{text[:12]}...{text[-12:]}"
