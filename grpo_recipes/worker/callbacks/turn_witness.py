"""Watches the turns of the first step: what the generator was given and gave, and what the loss makes of it."""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch

from grpo_recipes.contract.metric_names import TOOL_CALLS
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.secrets.redact import hide_secrets
from grpo_recipes.worker._shared.inputs import replaced
from grpo_recipes.worker._shared.planned import calls_tools
from grpo_recipes.worker.completions.generation import undisturbed
from grpo_recipes.worker.ends.ends import tokenizer_of
from grpo_recipes.worker.proofs.seen import Ids, Sampled, SampledTurns, TurnedRow, TurnsSeen, turned_row
from grpo_recipes.worker.trainer.trained_tensors import trainable, zero_matrices
from grpo_recipes.worker.vllm.sampled import Sampling, log_probs

_GENERATES, _SCORES = "_generate_single_turn", "_get_per_token_logps_and_entropies"
_WRITTEN = 2
# The place of a completion in its micro-batch, the tokens of its prompt and its own, and the loss's mask of these.
_Noted = tuple[int, Ids, Ids, list[int]]
_LONGEST = 100


def turn_witness(trainer: Any, plan: Plan) -> "TurnWitness | None":
    """The witness of a training with tools, None of another one."""
    return TurnWitness(trainer) if calls_tools(plan) and hasattr(trainer, _GENERATES) else None


class TurnWitness:
    """Stands before generation and scoring until leave() is called. note() is given the inputs of each loss."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._sampled = SampledTurns()
        self._noted: list[list[_Noted]] = []
        self._gradients: list[Any] = []
        self._scores: list[list[list[float]]] = []
        self._standing = ExitStack()
        # Gives the trainer its methods back.
        self.leave = self._standing.close
        for name, watching in ((_GENERATES, self._generating), (_SCORES, self._scoring)):
            if hasattr(trainer, name):
                self._standing.enter_context(replaced(trainer, name, watching(getattr(trainer, name))))

    def note(self, inputs: dict[str, Any]) -> None:
        """Keeps what a loss was computed from; called once the loss is there."""
        self._noted.append(list(_completions(inputs)))

    def seen(self) -> TurnsSeen:
        """All of it, when the backward passes are over."""
        gradients = self._gradients if len(self._gradients) == len(self._noted) else [None] * len(self._noted)
        rows = [row for noted, each in zip(self._noted, gradients, strict=True) for row in self._rows(noted, each)]
        logged = getattr(self._trainer, "_metrics", {}).get("train", {}).get(TOOL_CALLS)
        return TurnsSeen(tuple(rows), float(logged[-1]) if logged else None, self._written())

    def scored(self) -> tuple[Sampled, Sampled]:
        """The log-probabilities of the loss against those of the policy, which has to be the one that sampled."""
        scores = self._scores if len(self._scores) == len(self._noted) else [None] * len(self._noted)
        rows = [
            ScoredRow(prompt, ids, None if each is None else each[place])
            for noted, each in zip(self._noted, scores, strict=True)
            for place, prompt, ids, _ in noted
        ]
        return scored_turns(self._trainer, self._sampled, rows)

    def _generating(self, generate: Callable[..., Any]) -> Callable[..., Any]:
        # With messages it answers (prompts, completions, ...), with tokens (completions, ...).
        takes_messages = "prompts" in inspect.signature(generate).parameters

        @functools.wraps(generate)
        def noted(prompts: Any, *given: Any, **named: Any) -> Any:
            found = generate(prompts, *given, **named)
            if self._trainer.model.training:
                self._sampled.add(*(found[:2] if takes_messages else (prompts, found[0])))
            return found

        return noted

    def _scoring(self, score: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(score)
        def noted(*given: Any, **named: Any) -> Any:
            found = score(*given, **named)
            if torch.is_grad_enabled() and found[0].requires_grad:
                place = len(self._gradients)
                self._gradients.append(None)
                self._scores.append(found[0].detach().float().tolist())
                found[0].register_hook(functools.partial(self._keep_gradient, place))
            return found

        return noted

    def _keep_gradient(self, place: int, gradient: Any) -> None:
        self._gradients[place] = (gradient != 0).tolist()

    def _rows(self, noted: list[_Noted], gradient: list[list[bool]] | None) -> list[TurnedRow]:
        rows = []
        for place, prompt, ids, mask in noted:
            moved = None if gradient is None else gradient[place].__getitem__
            rows.append(turned_row(self._sampled, prompt, ids, mask, moved))
        return rows

    def _written(self) -> tuple[str, ...]:
        tokenizer = tokenizer_of(self._trainer)
        first = [ids for noted in self._noted[:1] for _, _, ids, _ in noted[:_WRITTEN]]
        texts = [hide_secrets(tokenizer.decode(ids, skip_special_tokens=False)) for ids in first]
        return tuple(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..." for text in texts)


def _completions(inputs: dict[str, Any]) -> Iterator[_Noted]:
    """Each completion of a micro-batch, without padding."""
    whole = inputs["completion_mask"]
    trained = whole * inputs["tool_mask"] if "tool_mask" in inputs else whole
    columns = (inputs["prompt_ids"], inputs["prompt_mask"], inputs["completion_ids"], trained, whole.sum(dim=1))
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for place, (prompt, prompt_mask, ids, mask, count) in enumerate(rows):
        if count:  # else left out by mask_truncated_completions
            asked = tuple(token for token, is_one in zip(prompt, prompt_mask, strict=True) if is_one)
            yield place, asked, tuple(ids[:count]), mask[:count]


# Holds the log-probabilities of the first loss against those with which the policy sampled, turn by turn.


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
            (own,) = log_probs(trainer, list(row.prompt), list(row.completion[:TOKENS]), sampling)
            for place, difference in _differences(own.tolist(), row.scores or [], turns):
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
