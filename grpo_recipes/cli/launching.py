"""What every command that starts processes does: it asks for trust, launches, and says what came of it."""

import gc
import sys
from pathlib import Path

import click

from grpo_recipes.errors import EXIT_DONE, Refusal
from grpo_recipes.plan import Plan
from grpo_recipes.trust.redact import redact


def ask_trust(plan: Plan, shas: tuple[str, ...]) -> None:
    """Raises Refusal for code that this user has not allowed."""
    from grpo_recipes.trust.allowed import allow, is_allowed
    from grpo_recipes.trust.code import code_parts, refusal, resolve_allowed

    parts = code_parts(plan)
    allow(resolve_allowed(shas, parts))
    missing = [part for part in parts if not is_allowed(part.sha256)]
    if missing:
        raise Refusal(refusal(missing))


def launched(folder: str, *, as_json: bool, resume: bool = False, smoke: bool = False) -> int:
    """Trains what lies in a run folder, prints how it ended, and returns the exit code.

    smoke: the run is a trial, and it is said whether it passed.
    """
    from grpo_recipes.launch.local import launch
    from grpo_recipes.launch.summary import summary
    from grpo_recipes.record.run_record import read_record

    gc.enable()
    click.echo(f"run folder {folder}", err=True)
    code = launch(folder, resume=resume, echo=sys.stderr)
    record = read_record(folder)
    if record is not None:
        text = Path(folder, "run.json").read_text(encoding="utf-8") if as_json else summary(record, folder)
        click.echo(redact(text), nl=False)
    if smoke:
        click.echo(_verdict(code, None if record is None else record.proofs), err=as_json)
    return code


def _verdict(code: int, proofs: object) -> str:
    if code != EXIT_DONE:
        return "smoke failed"
    is_open = not isinstance(proofs, list) or any(proof.get("ok") is None for proof in proofs)
    return "smoke passed" + (", but not everything could be seen" if is_open else "")
