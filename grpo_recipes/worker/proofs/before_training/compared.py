"""Values of the plan beside those of the live trainer: how they are kept, shown and refused."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_recipes.contract.findings.finding import Finding


@dataclass(frozen=True, slots=True)
class Compared:
    """One value of the plan and of the trainer. because, fix: said when they differ."""

    name: str
    plan: object
    live: object
    because: str = "training it would be a different experiment than the plan's"
    fix: str = "plan again on this machine, with the packages that are installed here"

    @property
    def ok(self) -> bool:
        """Whether both say the same."""
        return self.plan == self.live


@dataclass(frozen=True, slots=True)
class Comparison:
    """What one proof compared, on all processes. id, name: of the proof."""

    id: str
    name: str
    values: tuple[Compared, ...]

    @property
    def finding(self) -> Finding | None:
        """All differences, each with its planned and its live value; None for a proof that holds."""
        different = [value for value in self.values if not value.ok]
        if not different:
            return None
        return Finding(
            self.id,
            "error",
            f"{self.name}: the proof failed before the first step",
            because=tuple(dict.fromkeys(value.because for value in different)),
            fix="; ".join(dict.fromkeys(value.fix for value in different)),
            seen=tuple(f"{value.name}: plan {value.plan!r}, live {value.live!r}" for value in different),
        )


def as_records(comparisons: Iterable[Comparison]) -> list[dict[str, Any]]:
    """The values as run.json holds them: id of the proof, name, plan, live, ok."""
    return [
        {"id": one.id, "name": value.name, "plan": value.plan, "live": value.live, "ok": value.ok}
        for one in comparisons
        for value in one.values
    ]


def line(comparisons: Sequence[Comparison]) -> str:
    """One line for the terminal; arguments that agree are counted, not listed."""
    agreeing = [value for one in comparisons for value in one.values if value.ok]
    arguments = [value for value in agreeing if value.name.startswith("GRPOConfig.")]
    listed = [value for value in agreeing if value not in arguments]
    words = [f"{value.name} {value.live}" for value in listed if value.live != "none"]
    if any(value.live == "none" for value in listed):
        words.append("trained tensors as planned")
    if arguments:
        words.append(f"{len(arguments)} arguments as planned")
    return "proofs before the first step  " + " · ".join(words)
