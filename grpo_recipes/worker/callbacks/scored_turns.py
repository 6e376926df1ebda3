"""Holds the log-probabilities of the first loss against those with which the policy sampled, turn by turn."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from grpo_recipes.worker.completions.generation import undisturbed
from grpo_recipes.worker.proofs.seen import Sampled
from grpo_recipes.worker.proofs.turns_seen import Ids, SampledTurns
from grpo_recipes.worker.trainer.trained_tensors import trainable, zero_matrices
from grpo_recipes.worker.vllm.log_probs import Sampling, log_probs

ROWS = 4
TOKENS = 1024


class ScoredRow(NamedTuple):
    """One completion as the loss had it. scores: the log-probability that the loss has of each token, None unseen."""

    prompt: Ids
    completion: Ids
    scores: list[float] | None


def scored_turns(trainer: Any, sampled: SampledTurns, rows: list[ScoredRow]) -> tuple[Sampled, Sampled]:
    """What was found of the first turns, and of those behind a reply, in a few completions with the most turns.

    The policy as it is scores each whole conversation once more, by itself and without padding, as it stood before it
    when it sampled. So it has to be as it was then.
    """
    if any(row.scores is None for row in rows):
        return (Sampled(reason="the loss has no log-probabilities of single tokens"),) * 2
    if _drops_at_random(trainer.model):
        return (Sampled(reason="dropout changes them at random"),) * 2
    divided = [(row, turns) for row in rows if (turns := sampled.divided(row.prompt, row.completion)) is not None]
    divided.sort(key=lambda pair: len([start for start, _ in pair[1] if start < TOKENS]), reverse=True)
    # The loss knows the temperature alone: what top_k and the like left out is in it.
    sampling = Sampling(float(trainer.args.temperature), 1.0, 0, 0.0, 1.0, 0, ())
    first: list[float] = []
    later: list[float] = []
    with undisturbed(trainer):
        for row, turns in divided[:ROWS]:
            own = log_probs(trainer, list(row.prompt), list(row.completion[:TOKENS]), sampling).tolist()
            for place, difference in _differences(own, row.scores or [], turns):
                (later if place else first).append(difference)
    return _together(first), _together(later)


def _differences(own: list[float], scores: list[float], turns: list[tuple[int, int]]) -> Iterator[tuple[int, float]]:
    """The number of the turn and the |difference| of each token that was sampled."""
    for place, (start, end) in enumerate(turns):
        for token in range(start, min(end, len(own))):
            yield place, abs(own[token] - scores[token])


def _together(differences: list[float]) -> Sampled:
    return Sampled(len(differences), sum(differences), max(differences, default=0.0))


def _drops_at_random(model: Any) -> bool:
    """Whether the loss is computed with dropout, so that it cannot have the same values twice.

    The dropout of an adapter changes nothing as long as its B are zero.
    """
    if any(value > 0 for name, value in model.config.to_dict().items() if "drop" in name and type(value) is float):
        return True
    adapters = getattr(model, "peft_config", {}).values()
    matrices = {name for name in trainable(model) if "lora_B" in name}
    return any(getattr(one, "lora_dropout", 0) for one in adapters) and matrices != zero_matrices(model)
