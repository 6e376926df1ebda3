"""Compares properties that only the loaded data, model and tokenizer show with the plan, before the first step.

The keys, in run.json under "verified" and in the plan: dataset.rows, dataset.fingerprint, evaluation.rows,
evaluation.fingerprint (all rows, before any are left out), model.commit (on the hub), chat_template (sha256 of its
text), environment.tools (of TRL's own environments, whose service lists them).
"""

import hashlib
import inspect
import json
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.regular_file import file_sha256
from grpo_recipes.contract.findings.finding import mistake
from grpo_recipes.contract.plan import Model, Plan
from grpo_recipes.contract.plan_sections import Ancestor
from grpo_recipes.worker._shared.inputs import Refused
from grpo_recipes.worker._shared.record import Record

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


def seen_in_rows(where: str, rows: Any) -> dict[str, object]:
    """Returns the number of rows, and a digest of up to 1000 of them, evenly spaced, and of the column names."""
    count = len(rows)
    last = max(1, min(count, ROWS_IN_FINGERPRINT) - 1)
    places = sorted({place * (count - 1) // last for place in range(min(count, ROWS_IN_FINGERPRINT))})
    table = rows.select(places).with_format("arrow")[:]
    names = sorted(table.column_names)
    digest = hashlib.sha256(json.dumps([count, names]).encode())
    for row in table.select(names).to_pylist():
        digest.update(json.dumps(row, sort_keys=True, default=_plain).encode())
    return {f"{where}.rows": count, f"{where}.fingerprint": digest.hexdigest()}


def _plain(value: object) -> str:
    """Returns a digest for values that JSON cannot represent, such as images and audio."""
    return hashlib.sha256(value).hexdigest() if isinstance(value, bytes) else repr(value)


def seen_in_trainer(trainer: Any, plan: Plan) -> dict[str, object]:
    """Returns the hub model's commit, the chat template in use, and a TRL environment's tools, each if present."""
    found: dict[str, object] = {}
    commit = getattr(trainer.model.config, "_commit_hash", None)
    if plan.model.source == "hub" and not plan.trains_a_copy and commit is not None:
        found["model.commit"] = commit
    if plan.environment_class is not None and plan.environment_class.package is not None:
        tools = [[tool.__name__, tool.__doc__, str(inspect.signature(tool))] for tool in trainer.tools]
        found["environment.tools"] = hashlib.sha256(json.dumps(tools).encode()).hexdigest()
    template = getattr(trainer.processing_class, "chat_template", None)
    if isinstance(template, str):
        found["chat_template"] = hashlib.sha256(template.encode()).hexdigest()
    return found


def refuse_if_not_found(plan: Plan, found: dict[str, object], record: Record) -> None:
    """Writes what was found to run.json. Raises Refused if it differs from the plan, unless that was accepted.

    A plan has no images: a resumed run's images are compared with those that it began with.
    """
    earlier = record.read()
    began = earlier.get("verified", {}) if earlier.get("checkpoint") else {}
    others = [key for key in began if key.endswith(".images") and found.get(key) != began[key]]
    if others and not plan.accept_drift:
        raise Refused.of(
            "the images differ from those that this run began with",
            because=[f"{key}: began with {_short(began[key])}, found {_short(found.get(key))}" for key in others],
            fix="restore the files, or grpo-run RUNDIR --accept-drift",
        )
    record.update(verified=found)
    different = [key for key, planned in plan.verified.items() if key in found and found[key] != planned]
    if different and not plan.accept_drift:
        raise Refused(
            mistake(
                "the loaded data or model differs from the plan",
                seen=[f"{key}: plan {_short(plan.verified[key])}, found {_short(found[key])}" for key in different],
                because="training it would be a different experiment than the plan's",
                fix="restore what was planned, or grpo-run RUNDIR --accept-drift",
            )
        )


def _short(value: object) -> str:
    text = str(value)
    return text[:12] if len(text) in (40, 64) else text
