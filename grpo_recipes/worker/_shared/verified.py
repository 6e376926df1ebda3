"""Compares properties that only the loaded data, model and tokenizer show with the plan, before the first step.

The keys, in run.json under "verified" and in the plan: dataset.rows, dataset.fingerprint, evaluation.rows,
evaluation.fingerprint (all rows, before any are left out), model.commit (on the hub), chat_template (sha256 of its
text).
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.regular_file import file_sha256
from grpo_recipes.contract.findings.finding import mistake
from grpo_recipes.contract.plan import Model, Plan
from grpo_recipes.contract.plan_sections import Ancestor
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker._shared.replacing import Refused

ROWS_IN_FINGERPRINT = 1000
LARGEST_CHECKED_BYTES = 16 * 1024**2


def check_model_files(model: Model) -> None:
    """Raises Refused if a file of the model's folder differs from the plan.

    Large files (the weights) are checked by the process that writes the run folder, not again by each worker.
    """
    for name, planned in model.files.items():
        path = Path(model.path) / name
        is_large = path.is_file() and path.stat().st_size > LARGEST_CHECKED_BYTES
        if not is_large and (fault := _fault(path, planned)) is not None:
            raise Refused.of(f"model: {fault}", because="the plan was made with a different one", fix="plan again")


def check_ancestor(ancestor: Ancestor | None) -> None:
    """Raises Refused if an adapter's files differ from the plan. All of them are read and hashed."""
    if ancestor is None or ancestor.use == "weights":
        return  # the model itself, which check_model_files covers
    for name, planned in ancestor.files.items():
        if (fault := _fault(Path(ancestor.path) / name, planned)) is not None:
            raise Refused.of(
                f"the adapter of {ancestor.name} has changed since the plan was made",
                because=fault,
                fix="restore it, or plan again",
            )


def _fault(path: Path, planned: str) -> str | None:
    """Returns what is wrong with a file of the plan; None if it has the planned sha256."""
    if not path.is_file():
        return f"{path} does not exist"
    return (
        None if file_sha256(path) == planned else f"{path} changed since the plan was made: not sha256 {planned[:12]}"
    )


def facts_of_rows(where: str, rows: Any) -> dict[str, object]:
    """Returns the number of rows, and a digest of up to 1000 of them, evenly spaced, and of the column names."""
    count = len(rows)
    last = max(1, min(count, ROWS_IN_FINGERPRINT) - 1)
    places = sorted({index * (count - 1) // last for index in range(min(count, ROWS_IN_FINGERPRINT))})
    table = rows.select(places).with_format("arrow")[:]
    names = sorted(table.column_names)
    digest = hashlib.sha256(json.dumps([count, names]).encode())
    for row in table.select(names).to_pylist():
        digest.update(json.dumps(row, sort_keys=True, default=_plain).encode())
    return {f"{where}.rows": count, f"{where}.fingerprint": digest.hexdigest()}


def _plain(value: object) -> str:
    """Returns a digest for values that JSON cannot represent, such as images and audio."""
    return hashlib.sha256(value).hexdigest() if isinstance(value, bytes) else repr(value)


def loaded_commit(plan: Plan) -> str | None:
    """Returns the commit of the hub model that was loaded, as the cache of downloads has it; None for a folder.

    A loaded configuration no longer has it. Source: transformers' configuration_utils.py.
    """
    model = plan.model
    if model.source != "hub" or model.commit is not None:
        return model.commit
    from huggingface_hub import try_to_load_from_cache

    file = try_to_load_from_cache(model.path, "config.json", revision=model.revision)
    return Path(file).parent.name if isinstance(file, str) else None


def facts_of_trainer(trainer: Any, plan: Plan) -> dict[str, object]:
    """Returns the hub model's commit and the chat template in use, each if present."""
    facts: dict[str, object] = {}
    commit = loaded_commit(plan)
    if not plan.trains_a_copy and commit is not None:
        facts["model.commit"] = commit
    template = getattr(trainer.processing_class, "chat_template", None)
    if isinstance(template, str):
        facts["chat_template"] = hashlib.sha256(template.encode()).hexdigest()
    return facts


def refuse_if_not_found(plan: Plan, facts: dict[str, object], record: Record) -> None:
    """Writes what was found to run.json. Raises Refused if it differs from the plan, unless that was accepted.

    A plan has no images: a resumed run's images are compared with those that it began with.
    """
    earlier = record.read()
    began = earlier.get("verified", {}) if earlier.get("checkpoint") else {}
    others = [key for key in began if key.endswith(".images") and facts.get(key) != began[key]]
    if others and not plan.accept_drift:
        raise Refused.of(
            "the images differ from those that this run began with",
            because=[f"{key}: began with {_short(began[key])}, found {_short(facts.get(key))}" for key in others],
            fix="restore the files, or grpo-run RUNDIR --accept-drift",
        )
    record.update(verified=facts)
    different = [key for key, planned in plan.verified.items() if key in facts and facts[key] != planned]
    if different and not plan.accept_drift:
        raise Refused(
            mistake(
                "the loaded data or model differs from the plan",
                seen=[f"{key}: plan {_short(plan.verified[key])}, found {_short(facts[key])}" for key in different],
                because="training it would be a different experiment than the plan's",
                fix="restore what was planned, or grpo-run RUNDIR --accept-drift",
            )
        )


def _short(value: object) -> str:
    text = str(value)
    return text[:12] if len(text) in (40, 64) else text


def check_live_world(plan: Plan, arguments: Any) -> None:
    """Refuses a wrong number of processes before anything loads; with a wrong backend each one trains alone."""
    live = arguments.distributed_state
    if live.num_processes != plan.expect.world_size:
        raise Refused.of(
            f"processes that train together: {live.num_processes}, planned: {plan.expect.world_size}",
            because=f"accelerate sees {live.distributed_type} on {live.device}",
            fix="start with launch.sh of the run folder, or plan again for this machine",
        )
