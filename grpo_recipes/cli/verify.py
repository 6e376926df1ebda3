"""`grpo-run RUNDIR --verify`: whether a run folder changed since it was written, and who wrote it."""

import json
import time
from pathlib import Path

import click

from grpo_recipes.cli.launching import Asked
from grpo_recipes.contract.errors import Refusal
from grpo_recipes.contract.exits import EXIT_DIFFERENT, EXIT_DONE
from grpo_recipes.contract.findings.wording import one_line
from grpo_recipes.contract.integrity.manifest import FileFault
from grpo_recipes.contract.integrity.run_folder import PLAN_FILE
from grpo_recipes.contract.integrity.seal import NOBODY, SOMEBODY_ELSE, YOU
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.lock.verify import Verified, verified

VERIFY_FORMAT = 1
_SIGNED = {
    YOU: "written by you",
    SOMEBODY_ELSE: "written by someone else, or with a different key of yours",
    NOBODY: "written without a key, so the author is unknown",
}


def verify(place: str, asked: Asked) -> int:
    """Prints the result. 0: everything with a digest is unchanged; 1: something changed."""
    if any((asked.is_of_a_recipe, asked.out, asked.resuming, asked.extending, asked.allowed)):
        raise Refusal.of("--verify only reads a run folder; it only takes --json")
    folder = Path(place)
    if not (folder / PLAN_FILE).is_file() and not (folder / "worker").is_dir():
        raise Refusal.of(
            f"{place} is not a run folder", because=f"it has no {PLAN_FILE}", fix="name the folder of a run"
        )
    began = time.perf_counter()
    found = verified(folder)
    seconds = time.perf_counter() - began
    click.echo(redact(_json(place, found, seconds) if asked.as_json else _text(place, found, seconds)))
    return EXIT_DIFFERENT if found.faults else EXIT_DONE


def _text(place: str, found: Verified, seconds: float) -> str:
    lines = [_line(fault) for fault in found.faults]
    for signer, words in _SIGNED.items():
        what = [name for name, one in found.signers.items() if one == signer]
        if what:
            lines.append(f"{words}: {', '.join(what)}")
    lines += [f"not verified: {name}: {because}" for name, because in found.not_verified.items()]
    verdict = f"{len(found.faults)} of its files changed" if found.faults else "unchanged"
    read = f"{found.files} files, {found.bytes / 1e9:.3f} GB in {seconds:.1f} s"
    return "\n".join(one_line(line) for line in [*lines, f"{place}: {verdict} ({read})"])


def _line(fault: FileFault) -> str:
    if fault.kind == "missing":
        return f"{fault.name}: missing{fault.because.removeprefix('is missing')}"
    return f"{fault.name}: {fault.kind}, {'' if fault.kind == 'changed' else 'it '}{fault.because}"


def _json(place: str, found: Verified, seconds: float) -> str:
    content = {
        "verify": VERIFY_FORMAT,
        "folder": place,
        "is_whole": not found.faults,
        "faults": [{"file": one.name, "kind": one.kind, "because": one.because} for one in found.faults],
        "signers": found.signers,
        "not_verified": found.not_verified,
        "files": found.files,
        "bytes": found.bytes,
        "seconds": round(seconds, 3),
    }
    return json.dumps(content, indent=2)
