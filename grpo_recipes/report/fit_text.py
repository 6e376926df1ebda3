"""What a run needs of each machine, as text and as JSON."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from grpo_recipes.contract.findings.finding import Finding, mistake
from grpo_recipes.contract.findings.findings_text import bare_text
from grpo_recipes.memory.estimate import MemoryEstimate
from grpo_recipes.report.plan_text import GIB, memory_table


@dataclass(frozen=True, slots=True)
class Fitted:
    """A machine with what a run needs of it. refused: the errors of the recipe there, which cannot be run with them.

    ways: what would make it fit, "" where it does or nothing is known.
    unit: what has the memory, "GPU" or, on the CPU, "process": its share of this machine's memory.
    """

    machine: str
    estimate: MemoryEstimate
    layout: str = ""
    assumed: tuple[str, ...] = ()
    refused: tuple[Finding, ...] = ()
    ways: str = ""
    unit: str = "GPU"

    def verdict(self) -> str:
        """The first word of the answer."""
        return "cannot run" if self.refused else self.estimate.verdict()


def fit_text(found: Sequence[Fitted]) -> str:
    """A block for each machine: the verdict, and terms by phases in GiB of one GPU."""
    return "\n\n".join(map(_memory, found))


def fit_json(found: Sequence[Fitted]) -> str:
    """The answer for programs, in bytes."""
    return json.dumps({"machines": [_value(one) for one in found]}, indent=2)


def _memory(one: Fitted) -> str:
    peak, gpu_bytes = one.estimate.peak(), one.estimate.gpu_bytes
    lines = [f"{one.machine}: {one.verdict()}"]
    if reasons := _reasons(one):
        return bare_text([mistake(lines[0], because=reasons)])
    if peak is not None:
        of = "" if gpu_bytes is None else f" of {gpu_bytes / GIB:.1f}"
        lines[0] += f", {peak.total() / GIB:.1f}{of} GiB of each {one.unit} in {peak.name} ({one.layout})"
    if gpu_bytes is None:
        whose = "its GPUs have" if one.unit == "GPU" else "it has"
        lines.append(f"  = not known: how much memory {whose}")
    lines += [f"  = assumed: {assumed}" for assumed in one.assumed]
    lines += [f"  = would fit with: {one.ways}"] if one.ways else []
    return "\n".join([*lines, *(f"  {row}" for row in memory_table(one.estimate.by_phase()))])


def _reasons(one: Fitted) -> list[str]:
    """Why there is no estimate."""
    if one.refused:
        return [f"{finding.message} [{finding.rule}]" for finding in one.refused]
    return [one.estimate.unknown] if one.estimate.unknown else []


def _value(one: Fitted) -> dict[str, object]:
    peak = one.estimate.peak()
    return {
        "machine": one.machine,
        "verdict": one.verdict(),
        "because": "; ".join(_reasons(one)) or None,
        "gpu_bytes": one.estimate.gpu_bytes,
        "peak": None if peak is None else {"phase": peak.name, "bytes": peak.total()},
        "layout": one.layout or None,
        "assumed": list(one.assumed),
        "phases": one.estimate.by_phase(),
        "fix": one.ways or None,
    }
