"""Compares values of the plan with those of the live trainer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_recipes.contract.findings.finding import Finding


@dataclass(frozen=True, slots=True)
class Compared:
    """One value of the plan and of the trainer. because, fix: printed if they differ."""

    name: str
    plan: object
    live: object
    because: str = "training it would be a different experiment than the plan's"
    fix: str = "plan again on this machine, with the packages that are installed here"

    @property
    def ok(self) -> bool:
        """Whether both are equal."""
        return self.plan == self.live


@dataclass(frozen=True, slots=True)
class Comparison:
    """The values that one proof compared, on all processes. id, name: of the proof."""

    id: str
    name: str
    values: tuple[Compared, ...]

    @property
    def finding(self) -> Finding | None:
        """Returns all differences, each with its planned and its live value; None for a proof that holds."""
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
    """Returns the values as in run.json: id of the proof, name, plan, live, ok."""
    return [
        {"id": comparison.id, "name": value.name, "plan": value.plan, "live": value.live, "ok": value.ok}
        for comparison in comparisons
        for value in comparison.values
    ]


def line(comparisons: Sequence[Comparison]) -> str:
    """Returns a line for the terminal; arguments that agree are counted, not listed."""
    agreeing = [value for comparison in comparisons for value in comparison.values if value.ok]
    arguments = [value for value in agreeing if value.name.startswith("GRPOConfig.")]
    listed = [value for value in agreeing if value not in arguments]
    words = [f"{value.name} {value.live}" for value in listed if value.live != "none"]
    if any(value.live == "none" for value in listed):
        words.append("trained tensors as planned")
    if arguments:
        words.append(f"{len(arguments)} arguments as planned")
    return "proofs before the first step  " + " · ".join(words)


@dataclass(frozen=True, slots=True)
class VllmTokens:
    """vLLM's tokens. vocabulary: rows of its model, None if it does not report them.

    beyond: needed tokens without a row, in words. stops: for each stop that vLLM has to recognize as text, the text,
    its ids in the trainer's tokenizer, and the text of these ids in vLLM's. spells: whether vLLM reports that text.
    """

    vocabulary: int | None
    beyond: tuple[str, ...]
    stops: tuple[tuple[str, tuple[int, ...], str], ...]
    spells: bool


@dataclass(frozen=True, slots=True)
class Loaded:
    """The trainer of one process. arguments: final values of those that the plan names.

    trained: names of the parameters with requires_grad; expected: those that the plan trains; numbers: how many numbers
    the trained ones have, over all ranks. weights: dtypes of the model's own weights, without adapters and packed
    4-bit weights. vllm_dtype, vllm_tokens: None without vLLM, or if this process cannot see it.
    """

    rank: int
    deepspeed_stage: int
    arguments: Mapping[str, object]
    trained: frozenset[str]
    expected: frozenset[str]
    numbers: int
    weights: tuple[str, ...]
    device: str
    parameter_devices: tuple[str, ...]
    vllm_dtype: str | None = None
    vllm_tokens: VllmTokens | None = None
