"""What every command that starts processes does: it asks for trust, launches, and says what came of it."""

import gc
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from grpo_recipes.errors import EXIT_DONE, Refusal
from grpo_recipes.plan import Plan
from grpo_recipes.standard_streams import left_out
from grpo_recipes.trust.redact import redact

# The form of an answer after which nothing is launched; None launches.
AnswerAlone = Literal["text", "json"] | None


@dataclass(frozen=True, slots=True)
class Changes:
    """What a command asks for beside a recipe or a plan: --set, --accept, --strict, --accept-drift.

    begins_anew: a run that did not end is begun again in a folder of its own, --out.
    """

    overrides: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    strict: bool = False
    accept_drift: bool = False
    begins_anew: bool = False


@dataclass(frozen=True, slots=True)
class Ready:
    """A plan to launch. recipe_text: of its recipe.yaml. beside: the folder in which its run folder is made.

    is_pinned: it was planned before, so what the hub has by now is not asked for.
    """

    plan: Plan
    recipe_text: str
    beside: str = "runs"
    is_pinned: bool = False


def names_a_plan(place: str) -> bool:
    """Whether the argument of `run` is a run folder or a plan, and no recipe."""
    return os.path.isdir(place) or place.endswith(".json")


def ask_trust(plan: Plan, shas: tuple[str, ...], folder: str | None = None) -> None:
    """Raises Refusal for code that this user has not allowed.

    folder: a run folder that is launched as it lies there, with what is not as this grpo-run writes it.
    """
    from grpo_recipes.trust.allowed import allow, is_allowed
    from grpo_recipes.trust.code import code_parts, folder_part, refusal, resolve_allowed

    parts = code_parts(plan)
    if folder is not None:
        from grpo_recipes.render.foreign_files import foreign_files

        parts += folder_part(folder, foreign_files(plan, folder))
    allow(resolve_allowed(shas, parts))
    missing = [part for part in parts if not is_allowed(part.sha256)]
    if missing:
        raise Refusal(refusal(missing))


def launched(folder: str, *, as_json: bool, resume: bool = False, smoke: bool = False) -> int:
    """Trains what lies in a run folder, prints how it ended, and returns the exit code.

    smoke: the run is a trial, and it is said whether it passed.
    """
    from grpo_recipes.launch.asked import never_stopped_by_talk
    from grpo_recipes.launch.summary import summary
    from grpo_recipes.record.run_record import read_record

    gc.enable()
    never_stopped_by_talk()
    click.echo(f"run folder {folder}", err=True)
    code = _launch(folder, resume=resume)
    record = read_record(folder)
    if record is not None:
        text = Path(folder, "run.json").read_text(encoding="utf-8") if as_json else summary(record, folder)
        click.echo(redact(text), nl=False)
    if smoke:
        click.echo(_verdict(code, None if record is None else record.proofs), err=as_json)
    if (problem := left_out("stdout")) is not None:  # the exit is that of the run
        click.echo(f"how it ended could not be printed, run.json has it: {problem.strerror}", err=True)
    return code


def _launch(folder: str, *, resume: bool) -> int:
    """Launches a run folder through the engine that it was written for."""
    if os.path.exists(os.path.join(folder, "job.sbatch")):
        from grpo_recipes.launch.slurm import launch_job

        return launch_job(folder, resume=resume, echo=sys.stderr)
    from grpo_recipes.launch.local import launch

    return launch(folder, resume=resume, echo=sys.stderr)


def _verdict(code: int, proofs: object) -> str:
    if code != EXIT_DONE:
        return "smoke failed"
    is_open = not isinstance(proofs, list) or any(proof.get("ok") is None for proof in proofs)
    return "smoke passed" + (", but not everything could be seen" if is_open else "")
