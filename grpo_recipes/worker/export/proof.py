"""Whether an exported model is the trained one: both say how likely the tokens of the same completions are.

What the dtype allows is measured, not chosen: the trained model itself, each of its weights moved at random by up to a
unit in the last place of that dtype, differs from itself by so much. A weight of the exported model is rounded twice,
when the change is added and when it becomes one of that dtype, by half a unit each. Nor is a log-probability known
better than to a unit in its own last place. The largest of some hundred differences varies by chance, and with the
order in which a processor adds.

Weights of bfloat16 are computed with in float32 where that costs nothing: where the trained model is float32, and on a
CPU that multiplies bfloat16 slower. What the computation itself rounds would hide more than the weights do.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from grpo_recipes.contract.findings.finding import Finding, mistake
from grpo_recipes.worker.trainer.own_model import rounded

Say = Callable[[str], object]
"""Takes a line that says what an export is busy with."""


# How likely a model thinks the tokens of completions are.


class ProofText(NamedTuple):
    """The tokens of one text. prompt: how many of them, at least one, come before those that are looked at."""

    ids: list[int]
    prompt: int


def log_probs(model: Any, texts: Sequence[ProofText]) -> list[float]:
    """The log-probability of each token behind the prompts, at temperature 1."""
    found: list[float] = []
    device = next(model.parameters()).device
    with torch.inference_mode():
        for text in texts:
            ids = torch.tensor([text.ids], device=device)
            logits = model(input_ids=ids, use_cache=False).logits[0, text.prompt - 1 : -1]  # (T, V)
            chosen = ids[0, text.prompt :, None].to(logits.device)
            wide = torch.promote_types(logits.dtype, torch.float32)
            for rows, tokens in zip(logits.split(256), chosen.split(256), strict=True):
                found += torch.log_softmax(rows.to(wide), -1).gather(1, tokens)[:, 0].tolist()
    return found


# Of the trained model, each moved in another way.
MOVED = 2
# Measured on LoRA, full and 4-bit runs in three dtypes: an exported model differs by up to 1.2 times as much, and by
# more only if it is another model; by half as much where it is computed in float32. See tests/export/test_bound.py.
TIMES = 4.0
# A difference that is no more than so many times what is allowed may be rounding of what float32 computes, and a model
# of no more than so many weights is computed again in float64.
_NEARLY, _MOST_WEIGHTS = 8.0, 1_000_000_000
_AT_ONCE = 1 << 22


class TrainedSaid(NamedTuple):
    """The trained model on the completions. without: its log-probabilities without the adapter, None without one."""

    trained: list[float]
    without: list[float] | None


class ExportProof(NamedTuple):
    """What came of it. completions: what they are, in words. dtype: of the exported weights.

    difference: the largest between exported and trained model, NaN where one gives no number. rounding: the largest
    between the trained model and the moved ones. of_adapter: the largest between the trained model with its adapter and
    without it, None without one.
    """

    completions: str
    tokens: int
    dtype: str
    difference: float
    rounding: float
    of_adapter: float | None

    def shown(self) -> dict[str, Any]:
        """The proof as JSON has it."""
        return {**self._asdict(), "allowed": self.allowed}

    @property
    def allowed(self) -> float:
        """The largest difference that is taken for rounding."""
        return TIMES * self.rounding

    @property
    def holds(self) -> bool:
        """Whether the exported model is the trained one; NaN is not."""
        return self.difference <= self.allowed

    @property
    def is_blind(self) -> bool:
        """Whether what the adapter changed is so small that rounding hides it."""
        return self.of_adapter is not None and self.of_adapter <= self.allowed


def computed_in(exported: torch.dtype, trained: torch.dtype, device: str) -> torch.dtype:
    """The dtype that the proof of a dtype computes in; trained: of the trained model's weights.

    float16 stays, since what is computed may leave its range, and so does bfloat16 where float32 takes twice the memory
    and saves no time.
    """
    is_slow = device == "cpu" and not getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)()
    return torch.float32 if exported == torch.bfloat16 and (trained == torch.float32 or is_slow) else exported


def seen(model: Any, texts: Sequence[ProofText], say: Say) -> TrainedSaid:
    """What the trained model says, with its adapter and without it."""
    say("computing with the trained model")
    trained = log_probs(model, texts)
    if not hasattr(model, "disable_adapter"):
        return TrainedSaid(trained, None)
    say("computing without its adapter")
    with model.disable_adapter():
        return TrainedSaid(trained, log_probs(model, texts))


class Dtypes(NamedTuple):
    """weights: of the exported weights. computed: what the proof computes with them in."""

    weights: torch.dtype
    computed: torch.dtype


def rounding(
    load: Callable[[], Any], dtypes: Dtypes, texts: Sequence[ProofText], trained: Sequence[float], say: Say
) -> float:
    """The largest difference that moving the weights of the trained model makes. load: gives that model anew."""
    name = str(dtypes.weights).removeprefix("torch.")
    say(f"measuring what rounding to {name} makes")
    found: list[float] = [torch.finfo(torch.float32).eps * max(abs(each) for each in trained)]
    for seed in range(MOVED):
        moved = rounded(_moved(load(), dtypes.weights, seed), dtypes.computed)
        found.append(largest(log_probs(moved, texts), trained))
    return max(found)


def held_again(
    proof: ExportProof, load: Callable[[], Any], model: Any, dtypes: Dtypes, texts: Sequence[ProofText], say: Say
) -> ExportProof:
    """The proof anew in float64, where what float32 computes may be what was too large; else the proof as it is.

    An adapter of a high learning rate adds up to other sums than the merged weights, and float32 rounds these: the
    adapter of a run of 40 steps moved log-probabilities by 8.5, and its merged model differed by 6.9e-6 from it, 1.1
    times what was allowed, and not at all in float64. load, model: the trained and the exported one.
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
    """The largest difference, NaN where one of them is no number."""
    differences = [abs(one - other) for one, other in zip(some, others, strict=True)]
    return math.nan if any(math.isnan(each) for each in differences) else max(differences)


def refusal(proof: ExportProof) -> Finding:
    """What is said of an exported model that is another one."""
    if math.isnan(proof.difference):
        return mistake(
            "the exported model gives no numbers, nothing was written",
            because=f"its weights or what it computes with them do not fit into {proof.dtype}",
            fix="--dtype bfloat16, which has the range of float32",
        )
    because = [
        f"on {proof.tokens} tokens of {proof.completions} its log-probabilities differ by up to "
        f"{proof.difference:.3g} from those of the trained model",
        f"rounding to {proof.dtype} makes up to {proof.rounding:.3g} on them, and {TIMES:g} times that is allowed",
    ]
    if proof.of_adapter is not None:
        because.append(f"without its adapter the trained model differs by up to {proof.of_adapter:.3g} from itself")
    return mistake(
        "the exported model is not the trained one, nothing was written",
        because=because,
        fix="export the adapter alone with --adapter, and report this as a defect of grpo-run"
        if proof.of_adapter is not None
        else "another --dtype, and report this as a defect of grpo-run",
    )


def blindness(proof: ExportProof) -> Finding:
    """What is said where the proof cannot tell the exported model from one without the adapter."""
    return Finding(
        "",
        "warning",
        f"what was trained is not larger than what rounding to {proof.dtype} changes",
        because=(
            f"without its adapter the trained model differs by up to {proof.of_adapter:.3g} from itself, and "
            f"{proof.allowed:.3g} is taken for rounding: the proof would not see a missing adapter",
        ),
        fix="--dtype float32, or --adapter, which rounds nothing",
    )


def _moved(model: Any, dtype: torch.dtype, seed: int) -> Any:
    """The model with each weight moved by up to a unit in the last place of a dtype, and rounded to it."""
    draws = torch.Generator().manual_seed(seed)
    unit = torch.finfo(dtype).eps  # of a weight just above a power of two; of others less
    for weight in model.parameters():
        if weight.is_floating_point():
            old, new = weight.data.reshape(-1), torch.empty(weight.shape, dtype=dtype, device=weight.device)
            for before, after in zip(old.split(_AT_ONCE), new.view(-1).split(_AT_ONCE), strict=True):
                move = torch.rand(before.shape, generator=draws).to(before.device, torch.float64) * 2 - 1
                after.copy_(before.double() * (1 + unit * move))
            weight.data = new
    return model
