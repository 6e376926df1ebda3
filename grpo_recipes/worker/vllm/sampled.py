"""Holds what vLLM sampled against the policy that is trained, at the first generation and now and then after it."""

import itertools
import math
from dataclasses import dataclass
from typing import Any

from grpo_recipes.worker._shared.inputs import watch_inputs
from grpo_recipes.worker._shared.library import generation_in_use, vllm_engine
from grpo_recipes.worker.completions.generation import undisturbed
from grpo_recipes.worker.proofs.seen import Sampled
from grpo_recipes.worker.vllm.log_probs import Sampling, log_probs, sampling_of

ROWS = 4
TOKENS = 256
TOKENS_OF_TURNS = 1024
SAMPLED = "sampling_per_token_logps"
NO_LOG_PROBS = "this trl keeps no log-probabilities of what vLLM sampled"


@dataclass(frozen=True, slots=True)
class SampledCompletion:
    """One completion as vLLM sampled it. said: vLLM's log-probabilities; counts: which of them are to be compared."""

    prompt: list[int]
    completion: list[int]
    said: list[float]
    counts: list[bool]


class SamplerWitness:
    """Scores a few completions of the first, second, fourth, eighth ... generation by the policy that wrote them.

    take() gives what was found. All processes do it at the same generations, equally often. leave() when it is enough.
    """

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._sampling = sampling_of(trainer)
        self._generation: int | None = None
        self._generations = 0
        self._found: Sampled | None = None
        self._first: list[tuple[SampledCompletion, Any]] = []
        self.leave = watch_inputs(trainer, self._look)

    def take(self) -> Sampled | None:
        """What was found since the last call, None where no generation was looked at."""
        found, self._found = self._found, None
        return found

    def _look(self, inputs: Any) -> None:
        """At the first micro-batch of a generation, before the policy moves on from it."""
        generation = generation_in_use(self._trainer)
        if generation is None or generation == self._generation:
            return
        self._generation, self._generations = generation, self._generations + 1
        if self._generations.bit_count() == 1:
            self._found = self._compared(inputs)

    def _compared(self, inputs: Any) -> Sampled:
        reason = self._not_comparable(inputs)
        if reason:
            return Sampled(reason=reason)
        rows = some_rows(inputs, self._sampling.min_tokens)
        with undisturbed(self._trainer):
            now = [self._scores(row, None) for row in rows]
            drawn = now if self._sampling.is_plain() else [self._scores(row, self._sampling) for row in rows]
            moved = [(self._scores(row, None) - before).abs().sum().item() for row, before in self._first]
        moved_tokens = sum(len(row.completion) for row, _ in self._first)
        self._first = self._first or list(zip(rows, now, strict=True))
        # Older releases let vLLM say what the model's own probability was, before temperature and truncation.
        plain, as_drawn = self._difference(rows, now), self._difference(rows, drawn)
        nearer = plain if plain.apart + plain.cut < as_drawn.apart + as_drawn.cut else as_drawn
        return Sampled(
            nearer.tokens, nearer.apart, nearer.most, sum(moved), moved_tokens, nearer.cut, engine_dtype(self._trainer)
        )

    def _not_comparable(self, inputs: Any) -> str:
        if inputs.get(SAMPLED) is None:
            return NO_LOG_PROBS
        if "pixel_values" in inputs:
            return "the prompts have images"
        if self._sampling.other:
            return f"{', '.join(self._sampling.other)} changes the probabilities"
        return ""

    def _scores(self, row: SampledCompletion, sampling: Sampling | None) -> Any:
        return log_probs(self._trainer, row.prompt, row.completion, sampling)

    def _difference(self, rows: list[SampledCompletion], scores: list[Any]) -> Sampled:
        pairs = [
            (said, policy)
            for row, score in zip(rows, scores, strict=True)
            for said, policy, is_compared in zip(row.said, score.tolist(), row.counts, strict=True)
            if is_compared and math.isfinite(said)
        ]
        differences = [abs(said - policy) for said, policy in pairs if math.isfinite(policy)]
        cut = sum(not math.isfinite(policy) for _, policy in pairs)
        return Sampled(len(differences), sum(differences), max(differences, default=0.0), cut=cut)


def some_rows(inputs: Any, min_tokens: int) -> list[SampledCompletion]:
    """The first completions of a micro-batch that are trained, without padding, and no more than their first tokens.

    As many on every process: others fill up where too few are trained. With tools those with the most turns are first;
    tokens of replies are in them, not compared.
    """
    masks = inputs["completion_mask"].tolist()
    ours = (inputs["completion_mask"] * inputs["tool_mask"]).tolist() if "tool_mask" in inputs else masks
    longest = TOKENS_OF_TURNS if "tool_mask" in inputs else TOKENS
    places = sorted(range(len(masks)), key=lambda place: -_turns(ours[place][:longest]))[:ROWS]
    found = []
    for place in places:
        length = min(sum(masks[place]), longest)
        prompt = inputs["prompt_ids"][place][inputs["prompt_mask"][place].bool()].tolist()
        completion = inputs["completion_ids"][place][:length].tolist()
        said = inputs[SAMPLED][place][:length].tolist()
        # A token that could not have been an end has another probability than the model gives it.
        counts = [bool(one) and at >= min_tokens for at, one in enumerate(ours[place][:length])]
        found.append(SampledCompletion(prompt, completion, said, counts))
    return found


def _turns(mask: list[int]) -> int:
    """How often ones begin."""
    return sum(one > before for before, one in itertools.pairwise([0, *mask]))


def engine_dtype(trainer: Any) -> str | None:
    """The dtype that vLLM computes in, None where it is in another process."""
    engine = vllm_engine(trainer)
    configuration = getattr(getattr(engine, "llm_engine", None), "model_config", None)
    return None if configuration is None else str(configuration.dtype).removeprefix("torch.")
