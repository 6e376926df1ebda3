"""Extends a finished run: plans a new one that continues from the last checkpoint of the old one."""

import hashlib
import os
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.files.folder_files import read_bytes
from grpo_recipes.contract.integrity.checkpoints import JudgedCheckpoint, judge_checkpoints, step_of
from grpo_recipes.contract.integrity.run_folder import PLAN_FILE
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import Ancestor, lineage, weights_sha256
from grpo_recipes.lock.read_lock import Lock, refuse_damaged

LENGTHS = ("training.max_steps", "training.num_train_epochs")
EPISODES = "dataset.made.episodes"
"""Follows from the length if an environment owns the data: a longer run has more of the same sequence."""
# Schedules whose learning rate at a step is independent of the number of steps.
_STEADY = ("constant", "constant_with_warmup", "inverse_sqrt")


def last_checkpoint(lock: Lock, words: str) -> JudgedCheckpoint:
    """The checkpoint from which a run is extended. words: KEY=VALUE, its new length.

    Raises Refusal for any other key, for a run that has not ended or left no checkpoint, and for one whose plan, record
    or last checkpoint differs from what the run wrote.
    """
    key = words.partition("=")[0]
    if key not in LENGTHS:
        raise Refusal.of(
            f"--extend {words} does not extend the run",
            because=f"it takes {' or '.join(f'{length}=NUMBER' for length in LENGTHS)}",
            fix="a recipe with model.from_run starts from the run and changes anything else",
        )
    newest = next(judge_checkpoints(Path(lock.folder, "checkpoints")), None)
    refuse_damaged(lock, None if newest is None else f"checkpoints/{newest.folder.name}")
    status = None if lock.record is None else lock.record.status
    if status != "completed":
        raise Refusal.of(
            f"{lock.folder}: only a finished run can be extended",
            because="it was not started" if status is None else f"its run.json says {status}",
            fix=f"grpo-run {shlex.quote(lock.folder)} --resume",
        )
    if lock.plan.arguments.GRPOConfig.get("save_only_model") is True:
        raise Refusal.of(
            f"{lock.folder} was trained with save_only_model, so its optimizer and its schedule are lost",
            fix=f"model: {{from_run: {lock.folder}}} starts a new run from its weights",
        )
    if newest is not None and newest.manifest is not None:
        return newest
    raise Refusal.of(
        f"{lock.folder} has no complete checkpoint, so its optimizer and its schedule are lost",
        because=(newest and newest.reason) or "it was trained with save_steps: 0, or its checkpoints were removed",
        fix=f"model: {{from_run: {lock.folder}}} starts a new run from its weights",
    )


def extend_plan(lock: Lock, plan: Plan, checkpoint: JudgedCheckpoint) -> Plan:
    """The plan of the longer run. Raises Refusal if it is not longer.

    plan: of the same recipe with its new length.
    """
    step, most = step_of(checkpoint.folder), plan.arguments.GRPOConfig.get("max_steps")
    if not _is_longer(lock.plan, plan, step):
        raise Refusal.of(
            f"{lock.folder}: the new length does not extend it",
            because=f"its last checkpoint is from step {step}"
            + (f", and max_steps is {most}" if isinstance(most, int) and most > 0 else ""),
            fix="a larger number, or training.max_steps if the recipe sets that",
        )
    content = read_bytes(Path(lock.folder), PLAN_FILE)
    files = _digests(checkpoint)
    old = lock.plan
    ancestor = Ancestor(
        use="extend",
        name=old.name,
        named=lock.folder,
        run=lock.folder,
        plan_sha256=hashlib.sha256(content).hexdigest(),
        step=step,
        source="folder",
        path=os.path.abspath(checkpoint.folder),
        weights_sha256=weights_sha256(files),
        files=files,
        before=lineage(old.ancestor, old.extends),
    )
    notes = tuple(f"note: {line}" for line in parts_that_restart(plan, step))
    return replace(plan, extends=ancestor, findings=(*plan.findings, *notes))


def parts_that_restart(plan: Plan, step: int) -> Iterator[str]:
    """The parts of the schedule that differ from the run that is extended."""
    given = plan.arguments.GRPOConfig
    schedule = str(given.get("lr_scheduler_type") or "linear")
    if schedule not in _STEADY:
        yield (
            f"the schedule {schedule} is computed for the new length: after step {step} the learning rate is that of "
            "a run of that length, not the one that the old run ended with"
        )
    ratio, steps = given.get("warmup_ratio"), given.get("warmup_steps")
    if (ratio and not steps) or (isinstance(steps, float) and 0 < steps < 1):
        yield "the warmup is a share of the new length"


def _digests(checkpoint: JudgedCheckpoint) -> dict[str, str]:
    """The digests in the manifest of a checkpoint; that of an older release may have none."""
    listed = {} if checkpoint.manifest is None else checkpoint.manifest.files
    return {name: digest.sha256 for name, digest in listed.items() if digest.sha256 is not None}


def _is_longer(old: Plan, new: Plan, step: int) -> bool:
    was, now = old.arguments.GRPOConfig, new.arguments.GRPOConfig
    most = now.get("max_steps")
    if isinstance(most, int) and most > 0:
        return most > step
    epochs = [given.get("num_train_epochs") for given in (was, now)]
    return isinstance(epochs[1], int | float) and isinstance(epochs[0], int | float) and epochs[1] > epochs[0]
