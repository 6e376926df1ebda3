"""Compares vLLM's samples with the trained policy, at the first generation and at intervals afterwards."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from grpo_recipes.worker._shared.inputs import watch_inputs
from grpo_recipes.worker._shared.library import (
    OF_TOKENS,
    base_model,
    generation_in_use,
    images_by_row,
    logits_keyword,
    sampling_of_vllm,
    vllm_engine,
)
from grpo_recipes.worker.completions.undisturbed import undisturbed
from grpo_recipes.worker.proofs.seen import Sampled

# Request parameters that change no probability, or whose effect is modelled here.
HARMLESS = {
    "stop",
    "stop_token_ids",
    "include_stop_str_in_output",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "detokenize",
    "seed",
    "max_tokens",
    "logprobs",
    "n",
    "ignore_eos",
}
OWN = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


@dataclass(frozen=True, slots=True)
class Sampling:
    """How vLLM draws a token. other: parameters whose effect on probabilities is not modelled here.

    min_tokens: how many tokens of a completion could not be an end. bias: tokens, and what is added to their logits.
    """

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    min_tokens: int
    other: tuple[str, ...]
    bias: tuple[tuple[int, float], ...] = ()

    def is_plain(self) -> bool:
        """Whether every token keeps the model's own probability."""
        return (
            not self.bias
            and (self.temperature, self.top_p, self.min_p, self.repetition_penalty) == (1, 1, 0, 1)
            and self.top_k <= 0
        )


def sampling_of(trainer: Any) -> Sampling:
    """Returns the trainer's vLLM sampling settings; request parameters win, as in TRL."""
    of_requests = sampling_of_vllm(trainer)
    given: Mapping[str, Any] = {name: getattr(trainer.args, name, None) for name in OWN} | of_requests
    known = (*OWN, *HARMLESS, "min_tokens", "logit_bias")
    other = {name for name, value in of_requests.items() if value and name not in known}
    regex = ("vllm_structured_outputs_regex", "vllm_guided_decoding_regex")
    other |= {name for name in regex if getattr(trainer.args, name, None)}
    return Sampling(
        temperature=1.0 if given["temperature"] is None else float(given["temperature"]),
        top_p=1.0 if given["top_p"] is None else float(given["top_p"]),
        top_k=int(given["top_k"] or 0),
        min_p=float(given["min_p"] or 0.0),
        repetition_penalty=float(given["repetition_penalty"] or 1.0),
        min_tokens=int(of_requests.get("min_tokens") or 0),
        other=tuple(sorted(other)),
        bias=tuple((int(token), float(value)) for token, value in (of_requests.get("logit_bias") or {}).items()),
    )


def log_probs(
    trainer: Any,
    prompt: list[int],
    completion: list[int],
    *samplings: Sampling | None,
    shown: Mapping[str, Any] = MappingProxyType({}),
) -> list[Any]:
    """Returns for each sampling the log-probability of each token under the current policy: (C,) float32, on the CPU.

    Runs one forward without padding or gradients, in the model's current mode; under ZeRO-3 all processes must call it
    equally often. sampling: None for the model's own probabilities, else those that vLLM draws from. shown: the model's
    other inputs, for a row with images.
    """
    device = trainer.accelerator.device
    ids = torch.tensor([[*prompt, *completion]], device=device)
    keyword = logits_keyword(base_model(trainer, trainer.model))
    how = {} if keyword is None else {keyword: len(completion) + 1}
    scores = []
    with torch.no_grad():
        own_logits = (
            trainer.model(input_ids=ids, use_cache=False, **how, **shown).logits[0, -len(completion) - 1 : -1].float()
        )
        for sampling in samplings:
            logits = own_logits
            if completion and sampling is not None and not sampling.is_plain():
                logits = _processors(sampling)(_texts_so_far(prompt, completion, device), own_logits)
            scores.append(logits.log_softmax(-1).gather(1, ids[0, len(prompt) :, None])[:, 0].cpu())
    return scores


def _processors(sampling: Sampling) -> Any:
    """In vLLM's order: bias, penalty, temperature, min_p, top_k, top_p. Source: vllm 0.31.0 v1/sample/sampler.py."""
    processors: list[Any] = []
    if sampling.bias:
        processors.append(SequenceBiasLogitsProcessor({(token,): value for token, value in sampling.bias}))
    if sampling.repetition_penalty != 1:
        processors.append(RepetitionPenaltyLogitsProcessor(sampling.repetition_penalty))
    if sampling.temperature not in (0, 1):
        processors.append(TemperatureLogitsWarper(sampling.temperature))
    if sampling.min_p > 0:
        processors.append(MinPLogitsWarper(sampling.min_p))
    if sampling.top_k > 0:
        processors.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        processors.append(TopPLogitsWarper(sampling.top_p))
    return LogitsProcessorList(processors)


def _texts_so_far(prompt: list[int], completion: list[int], device: Any) -> Any:
    """Returns the tokens before each token, padded with the prompt's first token: (C, P + C - 1)."""
    width = len(prompt) + len(completion) - 1
    rows = [[*prompt, *completion[:count]] for count in range(len(completion))]
    return torch.tensor([[*row, *[row[0]] * (width - len(row))] for row in rows], device=device)


ROWS = 4
EVERY = 64
"""Generations between two comparisons once the hand-over is proved."""
TOKENS = 256
TOKENS_OF_TURNS = 1024
SAMPLED = "sampling_per_token_logps"
NO_LOG_PROBS = "this trl keeps no log-probabilities of vLLM's samples"


@dataclass(frozen=True, slots=True)
class SampledCompletion:
    """One completion as vLLM sampled it. said: vLLM's log-probabilities; counts: which of them to compare.

    shown: the policy's other inputs, {} without images.
    """

    prompt: list[int]
    completion: list[int]
    said: list[float]
    counts: list[bool]
    shown: Mapping[str, Any] = field(default_factory=dict)


class SamplerWitness:
    """Scores a few completions of generations 1, 2, 4, 8, ... with the policy that wrote them.

    take() returns the result. All processes compare at the same generations, equally often. go_on() then measures the
    policy's movement from the newest completions and compares every 64th generation. leave() removes the hooks.
    """

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._sampling, self._most_rows = sampling_of(trainer), ROWS
        self._generation: int | None = None
        self._generations = 0
        self._found: Sampled | None = None
        self._is_proved = False
        self._newest: list[tuple[SampledCompletion, Any]] = []
        self._from: list[tuple[SampledCompletion, Any]] = []
        self.leave = watch_inputs(trainer, self._look)

    def take(self) -> Sampled | None:
        """Returns the results since the last call, None if no generation was compared."""
        comparison, self._found = self._found, None
        return comparison

    def go_on(self) -> None:
        """Measures from now on. Call it once the last result has proved the weight sync."""
        self._is_proved, self._from = True, self._newest

    def _look(self, inputs: Any) -> None:
        """Runs at a generation's first micro-batch, before the policy changes."""
        generation = generation_in_use(self._trainer)
        if generation is None or generation == self._generation:
            return
        self._generation, self._generations = generation, self._generations + 1
        if self._generations % EVERY == 0 if self._is_proved else self._generations.bit_count() == 1:
            self._found = self._compare(inputs)

    def _compare(self, inputs: Any) -> Sampled:
        reason = self._not_comparable(inputs)
        if reason:
            return Sampled(reason=reason)
        rows = some_rows(inputs, self._sampling.min_tokens, self._trainer, self._most_rows)
        with undisturbed(self._trainer):
            scores = [self._scores(row, None, self._sampling) for row in rows]
            moved = [(self._scores(row, None)[0] - before).abs().sum().item() for row, before in self._from]
        now, drawn = ([score[at] for score in scores] for at in (0, 1))
        moved_tokens = sum(len(row.completion) for row, _ in self._from)
        self._newest = list(zip(rows, now, strict=True))
        self._from = self._from or self._newest
        # Older releases let vLLM report the model's own probability, before temperature and truncation.
        plain, as_drawn = self._difference(rows, now), self._difference(rows, drawn)
        nearer = plain if plain.apart + plain.cut < as_drawn.apart + as_drawn.cut else as_drawn
        return Sampled(
            nearer.tokens, nearer.apart, nearer.most, sum(moved), moved_tokens, nearer.cut, engine_dtype(self._trainer)
        )

    def _not_comparable(self, inputs: Any) -> str:
        if inputs.get(SAMPLED) is None:
            return NO_LOG_PROBS
        if self._sampling.other:
            return f"{', '.join(self._sampling.other)} changes the probabilities"
        return ""

    def _scores(self, row: SampledCompletion, *samplings: Sampling | None) -> list[Any]:
        return log_probs(self._trainer, row.prompt, row.completion, *samplings, shown=row.shown)

    def _difference(self, rows: list[SampledCompletion], scores: list[Any]) -> Sampled:
        pairs = [
            (sampled, policy)
            for row, score in zip(rows, scores, strict=True)
            for sampled, policy, is_compared in zip(row.said, score.tolist(), row.counts, strict=True)
            if is_compared and math.isfinite(sampled)
        ]
        differences = [abs(sampled - policy) for sampled, policy in pairs if math.isfinite(policy)]
        cut = sum(not math.isfinite(policy) for _, policy in pairs)
        return Sampled(len(differences), sum(differences), max(differences, default=0.0), cut=cut)


def some_rows(inputs: Any, min_tokens: int, trainer: Any = None, most: int = ROWS) -> list[SampledCompletion]:
    """Returns the longest trained completions of a micro-batch, unpadded and cut to their first tokens.

    Only later tokens show a fault of the steps after the first one. Every process returns equally many; untrained ones
    fill up if too few are trained. With tools, those with the most turns come first; replies are included but not
    compared. trainer: splits a micro-batch's images by row.
    """
    shown = images_by_row(trainer, inputs) if "pixel_values" in inputs else None
    masks = inputs["completion_mask"].tolist()
    ours = (inputs["completion_mask"] * inputs["tool_mask"]).tolist() if "tool_mask" in inputs else masks
    longest = TOKENS_OF_TURNS if "tool_mask" in inputs else TOKENS
    sizes = [(_turns(own[:longest]), sum(own[:longest])) for own in ours]
    places = sorted(range(len(masks)), key=sizes.__getitem__, reverse=True)[:most]
    completions = []
    for row in places:
        length = min(sum(masks[row]), longest)
        prompt = inputs["prompt_ids"][row][inputs["prompt_mask"][row].bool()].tolist()
        completion = inputs["completion_ids"][row][:length].tolist()
        sampled = inputs[SAMPLED][row][:length].tolist()
        # Where min_tokens forbids an end, the token's probability is not the model's own.
        counts = [bool(is_own) and at >= min_tokens for at, is_own in enumerate(ours[row][:length])]
        tokens, images = len(prompt) + length, {} if shown is None else shown[row]
        beside = {name: value[:, :tokens] if name in OF_TOKENS else value for name, value in images.items()}
        completions.append(SampledCompletion(prompt, completion, sampled, counts, beside))
    return completions


def _turns(mask: list[int]) -> int:
    """Counts how often a run of ones begins."""
    return sum(value > before for before, value in itertools.pairwise([0, *mask]))


def engine_dtype(trainer: Any) -> str | None:
    """Returns vLLM's compute dtype, None if it runs in a different process."""
    engine = vllm_engine(trainer)
    configuration = getattr(getattr(engine, "llm_engine", None), "model_config", None)
    return None if configuration is None else str(configuration.dtype).removeprefix("torch.")
