"""From where a run goes on: the newest whole checkpoint, if it is one of this run."""

from pathlib import Path

from grpo_recipes.worker.checkpoint import judged_checkpoints
from grpo_recipes.worker.manifest import Manifest, installed, read_manifest
from grpo_recipes.worker.planned import Plan
from grpo_recipes.worker.same_run import changed, experiment
from grpo_recipes.worker.stopped import Stopped

_SHOWN = 6


def checkpoint_to_resume(folder: Path, plan: Plan) -> tuple[Path | None, list[str]]:
    """The checkpoint that --resume goes on from, None to begin anew; with what has to be said of it.

    Raises Stopped where there are checkpoints and none is whole, and where the run has become another one.
    """
    skipped: list[tuple[str, str]] = []
    for checkpoint, reason in judged_checkpoints(folder / "checkpoints"):
        if reason is None:
            manifest = read_manifest(checkpoint)
            _refuse_another_world(checkpoint, manifest, plan.expect.world_size)
            said = _other_experiment(checkpoint, manifest, folder, is_accepted=plan.accept_drift)
            said += _other_stack(checkpoint, manifest)
            return checkpoint, [*_as_lines(skipped), *said, f"resumed from {checkpoint.name}"]
        skipped.append((checkpoint.name, reason))
    if skipped:
        raise Stopped(
            "none of the checkpoints is whole, so there is nothing to go on from\n"
            + "".join(f"  = because: {name}: {reason}\n" for name, reason in skipped)
            + f"  = fix: bring one back, or remove {folder / 'checkpoints'} and begin anew with --resume"
        )
    return None, ["no checkpoint was written yet: the training begins anew"]


def _as_lines(skipped: list[tuple[str, str]]) -> list[str]:
    return [f"skipped {name}: {reason}" for name, reason in skipped]


def _refuse_another_world(checkpoint: Path, manifest: Manifest, planned: int) -> None:
    if manifest.world_size != planned:
        raise Stopped(
            f"{checkpoint.name} was written by {_processes(manifest.world_size)}, the plan has {_processes(planned)}\n"
            f"  = because: each process has a part of its own in a checkpoint\n"
            f"  = fix: go on with {manifest.world_size}, or begin anew in another folder"
        )


def _processes(count: int) -> str:
    return f"{count} process{'' if count == 1 else 'es'}"


def _other_experiment(checkpoint: Path, manifest: Manifest, folder: Path, *, is_accepted: bool) -> list[str]:
    """What is said of another experiment that was accepted. Raises Stopped for one that was not."""
    differences = list(changed(manifest.experiment, experiment(folder)))
    if not differences:
        return []
    more = f", and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
    text = f"{'; '.join(differences[:_SHOWN])}{more}"
    if is_accepted:
        return [f"another experiment than that of {checkpoint.name}, which was accepted: {text}"]
    raise Stopped(
        f"plan.json is not what it was when {checkpoint.name} was written\n"
        f"  = because: {text}\n"
        f"  = fix: bring the old plan.json back, or begin anew in another folder"
    )


def _other_stack(checkpoint: Path, manifest: Manifest) -> list[str]:
    now = installed()
    both = [name for name in manifest.stack if name in now and manifest.stack[name] != now[name]]
    if not both:
        return []
    listed = ", ".join(f"{name} {manifest.stack[name]} -> {now[name]}" for name in both)
    return [f"another stack than that of {checkpoint.name}, so not bit for bit the same run: {listed}"]
