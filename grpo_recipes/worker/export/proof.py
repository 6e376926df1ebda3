"""Proves that an exported model gives the same log-probabilities as the trained one.

The tolerance for a dtype is measured, not chosen: it is the change in the trained model's results when each weight is
moved at random by up to one unit in the last place of that dtype. An exported weight is rounded twice, when the
adapter's change is added and when it is cast, by half a unit each. A log-probability is accurate to one unit in its
last place. The largest of a few hundred differences varies by chance, and with a processor's order of summation.

For bfloat16 weights the proof computes in float32 if that costs nothing: if the trained model is float32, or on a CPU
that multiplies bfloat16 more slowly. Rounding in a bfloat16 computation would hide more than rounding of the weights.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from grpo_recipes.contract.findings.finding import Finding, mistake
from grpo_recipes.worker.model.merging import rounded

Say = Callable[[str], object]
"""Called with a line about what an export is doing."""


class ProofText(NamedTuple):
    """The tokens of one text. prompt: how many of them, at least one, come before those compared."""

    ids: list[int]
    prompt: int


def log_probs(model: Any, texts: Sequence[ProofText]) -> list[float]:
    """Returns the log-probability of each token after the prompts, at temperature 1."""
    scores: list[float] = []
    device = next(model.parameters()).device
    with torch.inference_mode():
        for text in texts:
            ids = torch.tensor([text.ids], device=device)
            logits = model(input_ids=ids, use_cache=False).logits[0, text.prompt - 1 : -1]  # (T, V)
            chosen = ids[0, text.prompt :, None].to(logits.device)
            wide = torch.promote_types(logits.dtype, torch.float32)
            for rows, tokens in zip(logits.split(256), chosen.split(256), strict=True):
                scores += torch.log_softmax(rows.to(wide), -1).gather(1, tokens)[:, 0].tolist()
    return scores


# Copies of the trained model, each moved differently.
MOVED = 2
# Seen in LoRA, full and 4-bit runs in three dtypes: an exported model differs by up to 1.2 times the measured
# tolerance, by half of it if computed in float32, and by more only if it is a different model. See
# tests/export/test_bound.py.
TIMES = 4.0
# A difference of up to this many times the tolerance may be float32 rounding, so a model of up to this many weights is
# computed again in float64.
_NEARLY, _MOST_WEIGHTS = 8.0, 1_000_000_000
_AT_ONCE = 1 << 22


class TrainedSaid(NamedTuple):
    """The trained model's log-probabilities. without: those without the adapter, None if it has no adapter."""

    trained: list[float]
    without: list[float] | None


class ExportProof(NamedTuple):
    """The result of a proof. completions: which ones, in words. dtype: of the exported weights.

    difference: the largest between exported and trained model, NaN if one returns NaN. rounding: the largest between
    the trained model and the moved ones. of_adapter: the largest between the trained model with and without its
    adapter, None without one.
    """

    completions: str
    tokens: int
    dtype: str
    difference: float
    rounding: float
    of_adapter: float | None

    def as_json(self) -> dict[str, Any]:
        """Returns the proof as JSON."""
        return {**self._asdict(), "allowed": self.allowed}

    @property
    def allowed(self) -> float:
        """Returns the largest difference that counts as rounding."""
        return TIMES * self.rounding

    @property
    def holds(self) -> bool:
        """Whether the exported model is the trained one; false for NaN."""
        return self.difference <= self.allowed

    @property
    def is_blind(self) -> bool:
        """Whether the adapter's effect is so small that rounding hides it."""
        return self.of_adapter is not None and self.of_adapter <= self.allowed


def dtype_of_proof(exported: torch.dtype, trained: torch.dtype, device: str) -> torch.dtype:
    """Returns the dtype that the proof computes in; trained: of the trained model's weights.

    float16 stays, because activations may exceed its range, which the proof has to show; so does bfloat16 where float32
    takes twice the memory and no less time.
    """
    is_slow = device == "cpu" and not getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)()
    return torch.float32 if exported == torch.bfloat16 and (trained == torch.float32 or is_slow) else exported


def measure_trained(model: Any, texts: Sequence[ProofText], say: Say) -> TrainedSaid:
    """Computes the trained model's log-probabilities, with its adapter and without."""
    say("computing with the trained model")
    trained = log_probs(model, texts)
    if not hasattr(model, "disable_adapter"):
        return TrainedSaid(trained, None)
    say("computing without its adapter")
    with model.disable_adapter():
        return TrainedSaid(trained, log_probs(model, texts))


class Dtypes(NamedTuple):
    """The dtypes of a proof. weights: of the exported weights. computed: of the computation."""

    weights: torch.dtype
    computed: torch.dtype


def rounding(
    load: Callable[[], Any], dtypes: Dtypes, texts: Sequence[ProofText], trained: Sequence[float], say: Say
) -> float:
    """Returns the largest difference caused by moving the trained model's weights. load: loads that model again."""
    name = str(dtypes.weights).removeprefix("torch.")
    say(f"measuring the effect of rounding to {name}")
    differences: list[float] = [torch.finfo(torch.float32).eps * max(abs(each) for each in trained)]
    for seed in range(MOVED):
        moved = rounded(_move(load(), dtypes.weights, seed), dtypes.computed)
        differences.append(largest(log_probs(moved, texts), trained))
    return max(differences)


def repeat_in_float64(
    proof: ExportProof, load: Callable[[], Any], model: Any, dtypes: Dtypes, texts: Sequence[ProofText], say: Say
) -> ExportProof:
    """Returns the proof, repeated in float64 if float32 may explain a difference that is too large.

    Adapter and merged weights are summed in different orders, which float32 rounds differently. At a high learning rate
    this can exceed the tolerance: an adapter of 40 steps moved log-probabilities by 8.5, and its merged model differed
    by 6.9e-6, 1.1 times the tolerance, but not at all in float64. load, model: the trained and the exported model.
    """
    weights = sum(weight.numel() for weight in model.parameters())
    nearly = proof.difference <= _NEARLY * proof.allowed
    if proof.holds or not nearly or dtypes.computed != torch.float32 or weights > _MOST_WEIGHTS:
        return proof
    say("computing again in float64")
    exact = log_probs(rounded(load(), torch.float64), texts)
    moved = rounding(load, dtypes._replace(computed=torch.float64), texts, exact, say)
    difference = largest(log_probs(rounded(model, torch.float64), texts), exact)
    return proof._replace(difference=difference, rounding=moved)


def largest(some: Sequence[float], others: Sequence[float]) -> float:
    """Returns the largest difference, NaN if any value is NaN."""
    differences = [abs(value - other) for value, other in zip(some, others, strict=True)]
    return math.nan if any(math.isnan(each) for each in differences) else max(differences)


def refusal(proof: ExportProof) -> Finding:
    """Returns the finding for an exported model that differs from the trained one."""
    if math.isnan(proof.difference):
        return mistake(
            "the exported model returns NaN, nothing was written",
            because=f"its weights or activations exceed the range of {proof.dtype}",
            fix="--dtype bfloat16, which has the range of float32",
        )
    because = [
        f"on {proof.tokens} tokens of {proof.completions} its log-probabilities differ by up to "
        f"{proof.difference:.3g} from those of the trained model",
        f"rounding to {proof.dtype} changes them by up to {proof.rounding:.3g}, and {TIMES:g} times that is allowed",
    ]
    if proof.of_adapter is not None:
        because.append(f"removing its adapter changes the trained model by up to {proof.of_adapter:.3g}")
    return mistake(
        "the exported model is not the trained one, nothing was written",
        because=because,
        fix="export the adapter alone with --adapter, and report this as a defect of grpo-run"
        if proof.of_adapter is not None
        else "a different --dtype, and report this as a defect of grpo-run",
    )


def blindness(proof: ExportProof) -> Finding:
    """Returns the finding for a proof that cannot tell the export from one without the adapter."""
    return Finding(
        "",
        "warning",
        f"rounding to {proof.dtype} hides what was trained",
        because=(
            f"removing its adapter changes the trained model by up to {proof.of_adapter:.3g}, and up to "
            f"{proof.allowed:.3g} counts as rounding: the proof would not notice a missing adapter",
        ),
        fix="--dtype float32, or --adapter, which rounds nothing",
    )


def _move(model: Any, dtype: torch.dtype, seed: int) -> Any:
    """Returns the model with each weight moved by up to a unit in the last place of a dtype, and rounded to it."""
    draws = torch.Generator().manual_seed(seed)
    unit = torch.finfo(dtype).eps  # for a weight just above a power of two; less for others
    for weight in model.parameters():
        if weight.is_floating_point():
            old, new = weight.data.reshape(-1), torch.empty(weight.shape, dtype=dtype, device=weight.device)
            for before, after in zip(old.split(_AT_ONCE), new.view(-1).split(_AT_ONCE), strict=True):
                move = torch.rand(before.shape, generator=draws).to(before.device, torch.float64) * 2 - 1
                after.copy_(before.double() * (1 + unit * move))
            weight.data = new
    return model
