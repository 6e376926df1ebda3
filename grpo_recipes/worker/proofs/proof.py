"""The result of a proof, a statement about the running trainer, and how it is printed."""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from grpo_recipes.contract.findings.finding import Finding

WIDTH = 110
PROOFS_OF = "step 1 proofs"


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of one proof.

    ok: None if it could not be checked yet. shown: a few words for the block of proofs. finding: only if it failed.
    """

    id: str
    name: str
    ok: bool | None
    shown: str
    finding: Finding | None = None


class Statement(NamedTuple):
    """The statement that a file of this folder proves. id, name: of the proof."""

    id: str
    name: str

    def holds(self, shown: str) -> Proof:
        """Returns the proof as passed."""
        return Proof(self.id, self.name, True, shown)

    def unseen(self, shown: str) -> Proof:
        """Returns the proof as not checked, or not yet."""
        return Proof(self.id, self.name, None, shown)

    def fails(self, shown: str, *, planned: str, because: str, fix: str, observed: str | None = None) -> Proof:
        """Returns the proof as failed, with the observed and the planned state, the usual cause and a fix."""
        lines = (f"found    {observed or shown}", f"planned  {planned}")
        message = f"{self.name}: the proof failed"
        finding = Finding(self.id, "error", message, because=(because,), fix=fix, seen=lines)
        return Proof(self.id, self.name, False, shown, finding)


def as_records(proofs: list[Proof]) -> list[dict[str, Any]]:
    """Returns the proofs as in run.json: id, name, ok, shown."""
    return [{key: asdict(proof)[key] for key in ("id", "name", "ok", "shown")} for proof in proofs]


def block(proofs: list[Proof]) -> str:
    """Returns the proofs on a few lines, after a title."""
    head = f"{PROOFS_OF}  "
    lines = [head]
    for proof in proofs:
        words = proof.shown if proof.ok is not False else f"NOT {proof.name}: {proof.shown}"
        if lines[-1] == head:
            lines[-1] += words
        elif len(lines[-1]) + 3 + len(words) > WIDTH:
            lines.append(" " * len(head) + words)
        else:
            lines[-1] += f" · {words}"
    return "\n".join(lines)


def refusal(proofs: list[Proof], step: int) -> tuple[Finding, ...]:
    """Returns the findings of the proofs that failed in an optimizer step, counted from 1."""
    failed = (proof.finding for proof in proofs if proof.finding is not None)
    return tuple(finding._replace(message=f"{finding.message} in step {step}") for finding in failed)
