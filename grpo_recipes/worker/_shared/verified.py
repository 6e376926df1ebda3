"""What only the loaded data, model and tokenizer say of themselves, held against the plan before the first step.

The keys, in run.json under "verified" and in the plan: dataset.rows, dataset.fingerprint, evaluation.rows,
evaluation.fingerprint (rows of the whole data, before any is left out), model.commit (of the hub), chat_template
(sha256 of its text), environment.tools (of one of TRL's own, whose service says which there are).
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
    """Raises Refused if a file of the model's folder is another one than in the plan.

    Large files, the weights, are read by whoever wrote the run folder, and not once more by each process.
    """
    for name, planned in model.files.items():
        path = Path(model.path) / name
        is_large = path.is_file() and path.stat().st_size > LARGEST_CHECKED_BYTES
        if not is_large and (fault := _fault(path, planned)) is not None:
            raise Refused.of(f"model: {fault}", because="the plan was made with another one", fix="plan again")


def check_ancestor(ancestor: Ancestor | None) -> None:
    """Raises Refused if what an adapter is loaded from is another one than when the plan was made; it is read whole."""
    if ancestor is None or ancestor.use == "weights":
        return  # the model itself, which is looked at as such
    for name, planned in ancestor.files.items():
        if (fault := _fault(Path(ancestor.path) / name, planned)) is not None:
            raise Refused.of(
                f"the adapter of {ancestor.name} is not what it was when the plan was made",
                because=fault,
                fix="bring it back, or plan again",
            )


def _fault(path: Path, planned: str) -> str | None:
    """What is wrong with a file that the plan was made with; None where it has the planned sha256."""
    if not path.is_file():
        return f"{path} does not exist"
    return (
        None if file_sha256(path) == planned else f"{path} changed since the plan was made: not sha256 {planned[:12]}"
    )


def seen_in_rows(where: str, rows: Any) -> dict[str, object]:
    """How many rows there are, and a digest of up to 1000 of them, evenly spread, with the names of their columns."""
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
    """What JSON has no word for; pictures and sounds are bytes here."""
    return hashlib.sha256(value).hexdigest() if isinstance(value, bytes) else repr(value)


def seen_in_trainer(trainer: Any, plan: Plan) -> dict[str, object]:
    """The commit that the hub's model was loaded at, the chat template that is used, and the tools of one of TRL's own
    environments; what there is none of is left out.
    """
    found: dict[str, object] = {}
    commit = getattr(trainer.model.config, "_commit_hash", None)
    if plan.model.source == "hub" and not plan.trains_a_copy and commit is not None:
        found["model.commit"] = commit
    if plan.environment_class is not None and plan.environment_class.package is not None:
        told = [[tool.__name__, tool.__doc__, str(inspect.signature(tool))] for tool in trainer.tools]
        found["environment.tools"] = hashlib.sha256(json.dumps(told).encode()).hexdigest()
    template = getattr(trainer.processing_class, "chat_template", None)
    if isinstance(template, str):
        found["chat_template"] = hashlib.sha256(template.encode()).hexdigest()
    return found


def refuse_if_not_found(plan: Plan, found: dict[str, object], record: Record) -> None:
    """Writes what was found into run.json. Raises Refused if it is not what the plan has, unless that was accepted.

    A plan knows no images: those of a resumed run are held against the ones that it began with.
    """
    earlier = record.read()
    began = earlier.get("verified", {}) if earlier.get("checkpoint") else {}
    others = [key for key in began if key.endswith(".images") and found.get(key) != began[key]]
    if others and not plan.accept_drift:
        raise Refused.of(
            "the images are not those that this run began with",
            because=[f"{key}: began with {_short(began[key])}, found {_short(found.get(key))}" for key in others],
            fix="bring the files back, or grpo-run RUNDIR --accept-drift",
        )
    record.update(verified=found)
    different = [key for key, planned in plan.verified.items() if key in found and found[key] != planned]
    if different and not plan.accept_drift:
        raise Refused(
            mistake(
                "what was loaded is not what the plan was made with",
                seen=[f"{key}: plan {_short(plan.verified[key])}, found {_short(found[key])}" for key in different],
                because="training it would be a different experiment than the plan's",
                fix="bring back what was planned, or grpo-run RUNDIR --accept-drift",
            )
        )


def _short(value: object) -> str:
    text = str(value)
    return text[:12] if len(text) in (40, 64) else text
