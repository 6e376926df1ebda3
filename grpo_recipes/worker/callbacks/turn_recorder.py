"""Records the turns of the first step: the generator's input and output, and how the loss treats them."""

import functools
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch

from grpo_recipes.contract.metric_names import TOOL_CALLS
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.secrets.redact import hide_secrets
from grpo_recipes.worker._shared.planned import calls_tools
from grpo_recipes.worker.completions.undisturbed import undisturbed
from grpo_recipes.worker.ends.ends import tokenizer_of
from grpo_recipes.worker.model.trained_tensors import trainable, zero_matrices
from grpo_recipes.worker.proofs.seen import Ids, Sampled, SampledTurns, TurnedRow, TurnsSeen, turned_row
from grpo_recipes.worker.vllm.sampled import Sampling, log_probs

_WRITTEN = 2
# A completion's index in its micro-batch, its prompt's tokens, its own tokens, and the loss mask.
_Noted = tuple[int, Ids, Ids, list[int]]
_LONGEST = 100


def turn_witness(trainer: Any, plan: Plan) -> "TurnWitness | None":
    """Returns the witness of a training with tools, otherwise None."""
    return TurnWitness(trainer) if calls_tools(plan) and trainer.seams.has("turn is generated") else None


class TurnWitness:
    """Observes generation and scoring until leave() is called. Pass the inputs of each loss to note()."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._sampled = SampledTurns()
        self._noted: list[list[_Noted]] = []
        self._gradients: list[Any] = []
        self._scores: list[list[list[float]]] = []
        standing = ExitStack()
        self.leave = standing.close
        for event, look in (("turn is generated", self._add_turn), ("tokens are scored", self._add_scores)):
            standing.callback(trainer.seams.observe(event, "turns of the first step", look))

    def note(self, inputs: dict[str, Any]) -> None:
        """Keeps what a loss was computed from. Call it after the loss."""
        self._noted.append(list(_completions(inputs)))

    def seen(self) -> TurnsSeen:
        """Returns everything recorded, after the backward passes."""
        gradients = self._gradients if len(self._gradients) == len(self._noted) else [None] * len(self._noted)
        rows = [row for noted, each in zip(self._noted, gradients, strict=True) for row in self._rows(noted, each)]
        logged = self._trainer.seams.figures().get(TOOL_CALLS)
        return TurnsSeen(tuple(rows), float(logged[-1]) if logged else None, self._written())

    def scored(self) -> tuple[Sampled, Sampled]:
        """Returns the loss's log-probabilities compared with the policy's, which must be unchanged since it sampled."""
        scores = self._scores if len(self._scores) == len(self._noted) else [None] * len(self._noted)
        rows = [
            ScoredRow(prompt, ids, None if each is None else each[index])
            for noted, each in zip(self._noted, scores, strict=True)
            for index, prompt, ids, _ in noted
        ]
        return scored_turns(self._trainer, self._sampled, rows)

    def _add_turn(self, output: Any, prompts: Any, *_: Any, **__: Any) -> None:
        if self._trainer.model.training:
            takes_tokens = self._trainer.seams.does("turns take tokens")
            self._sampled.add(*((prompts, output[0]) if takes_tokens else output[:2]))

    def _add_scores(self, output: Any, *_: Any, **__: Any) -> None:
        if torch.is_grad_enabled() and output[0].requires_grad:
            index = len(self._gradients)
            self._gradients.append(None)
            self._scores.append(output[0].detach().float().tolist())
            output[0].register_hook(functools.partial(self._keep_gradient, index))

    def _keep_gradient(self, index: int, gradient: Any) -> None:
        self._gradients[index] = (gradient != 0).tolist()

    def _rows(self, noted: list[_Noted], gradient: list[list[bool]] | None) -> list[TurnedRow]:
        rows = []
        for index, prompt, ids, mask in noted:
            moved = None if gradient is None else gradient[index].__getitem__
            rows.append(turned_row(self._sampled, prompt, ids, mask, moved))
        return rows

    def _written(self) -> tuple[str, ...]:
        tokenizer = tokenizer_of(self._trainer)
        first = [ids for noted in self._noted[:1] for _, _, ids, _ in noted[:_WRITTEN]]
        texts = [hide_secrets(tokenizer.decode(ids, skip_special_tokens=False)) for ids in first]
        return tuple(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..." for text in texts)


def _completions(inputs: dict[str, Any]) -> Iterator[_Noted]:
    """Yields each completion of a micro-batch without padding."""
    whole = inputs["completion_mask"]
    trained = whole * inputs["tool_mask"] if "tool_mask" in inputs else whole
    columns = (inputs["prompt_ids"], inputs["prompt_mask"], inputs["completion_ids"], trained, whole.sum(dim=1))
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for index, (prompt, prompt_mask, ids, mask, count) in enumerate(rows):
        if count:  # otherwise mask_truncated_completions left it out
            asked = tuple(token for token, is_one in zip(prompt, prompt_mask, strict=True) if is_one)
            yield index, asked, tuple(ids[:count]), mask[:count]


ROWS = 4
TOKENS = 1024


class ScoredRow(NamedTuple):
    """One completion in the loss. scores: the loss's log-probability of each token, None if not recorded."""

    prompt: Ids
    completion: Ids
    scores: list[float] | None


def scored_turns(trainer: Any, sampled: SampledTurns, rows: list[ScoredRow]) -> tuple[Sampled, Sampled]:
    """Returns the differences in first turns, and in turns after a tool reply, for the completions with the most turns.

    The current policy scores each conversation up to each turn again, alone and without padding, as when it sampled, so
    it must not have changed since.
    """
    if any(row.scores is None for row in rows):
        return (Sampled(reason="the loss has no log-probabilities of single tokens"),) * 2
    if drops_at_random(trainer.model):
        return (Sampled(reason="dropout makes them random"),) * 2
    divided = [(row, turns) for row in rows if (turns := sampled.divided(row.prompt, row.completion)) is not None]
    divided.sort(key=lambda pair: len([start for start, _ in pair[1] if start < TOKENS]), reverse=True)
    # The loss applies only the temperature, not top_k and similar filters.
    sampling = Sampling(float(trainer.args.temperature), 1.0, 0, 0.0, 1.0, 0, ())
    first: list[float] = []
    later: list[float] = []
    with undisturbed(trainer):
        for row, turns in divided[:ROWS]:
            (own,) = log_probs(trainer, list(row.prompt), list(row.completion[:TOKENS]), sampling)
            for number, difference in _differences(own.tolist(), row.scores or [], turns):
                (later if number else first).append(difference)
    return _together(first), _together(later)


def _differences(own: list[float], scores: list[float], turns: list[tuple[int, int]]) -> Iterator[tuple[int, float]]:
    """Yields the turn number and the |difference| of each sampled token."""
    for number, (start, end) in enumerate(turns):
        for token in range(start, min(end, len(own))):
            yield number, abs(own[token] - scores[token])


def _together(differences: list[float]) -> Sampled:
    return Sampled(len(differences), sum(differences), max(differences, default=0.0))


def drops_at_random(model: Any) -> bool:
    """Whether the loss uses dropout, so that it never has the same values twice.

    An adapter's dropout has no effect while its B matrices are zero.
    """
    if any(value > 0 for name, value in model.config.to_dict().items() if "drop" in name and type(value) is float):
        return True
    adapters = getattr(model, "peft_config", {}).values()
    matrices = {name for name in trainable(model) if "lora_B" in name}
    return any(getattr(adapter, "lora_dropout", 0) for adapter in adapters) and matrices != zero_matrices(model)
