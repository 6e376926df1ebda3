"""The log-probabilities of completions under the live policy, as vLLM computes those of what it samples."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from grpo_recipes.worker._shared.library import logits_keyword, sampling_of_vllm

# Parameters of a request that change no probability, or whose effect is known here.
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
    """How vLLM draws a token. other: parameters that change probabilities in a way that is not followed here.

    min_tokens: so many tokens at the beginning of a completion could not be an end.
    """

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    min_tokens: int
    other: tuple[str, ...]

    def is_plain(self) -> bool:
        """Whether every token has the probability that the model gives it."""
        return (self.temperature, self.top_p, self.min_p, self.repetition_penalty) == (1, 1, 0, 1) and self.top_k <= 0


def sampling_of(trainer: Any) -> Sampling:
    """How this trainer lets vLLM sample; what the requests carry wins, as in TRL."""
    of_requests = sampling_of_vllm(trainer)
    given: Mapping[str, Any] = {name: getattr(trainer.args, name, None) for name in OWN} | of_requests
    other = {name for name, value in of_requests.items() if value and name not in (*OWN, *HARMLESS, "min_tokens")}
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
    )


def log_probs(trainer: Any, prompt: list[int], completion: list[int], sampling: Sampling | None) -> Any:
    """(C,) float32, on the CPU: the log-probability of each token of a completion under the policy as it is.

    One forward without padding, without gradients and in the model's present mode; under ZeRO-3 all processes have to
    call it equally often. sampling: None gives what the model says, else what is left of it when vLLM draws.
    """
    device = trainer.accelerator.device
    ids = torch.tensor([[*prompt, *completion]], device=device)
    keyword = logits_keyword(_base(trainer))
    kept = {} if keyword is None else {keyword: len(completion) + 1}
    with torch.no_grad():
        logits = trainer.model(input_ids=ids, use_cache=False, **kept).logits[0, -len(completion) - 1 : -1].float()
        if completion and sampling is not None and not sampling.is_plain():
            logits = _processors(sampling)(_texts_so_far(prompt, completion, device), logits)
        chosen = logits.log_softmax(-1).gather(1, ids[0, len(prompt) :, None])
    return chosen[:, 0].cpu()


def _processors(sampling: Sampling) -> Any:
    """In vLLM's order: the penalty, the temperature, min_p, top_k, top_p. Source: vllm 0.31.0 v1/sample/sampler.py."""
    found: list[Any] = []
    if sampling.repetition_penalty != 1:
        found.append(RepetitionPenaltyLogitsProcessor(sampling.repetition_penalty))
    if sampling.temperature not in (0, 1):
        found.append(TemperatureLogitsWarper(sampling.temperature))
    if sampling.min_p > 0:
        found.append(MinPLogitsWarper(sampling.min_p))
    if sampling.top_k > 0:
        found.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        found.append(TopPLogitsWarper(sampling.top_p))
    return LogitsProcessorList(found)


def _texts_so_far(prompt: list[int], completion: list[int], device: Any) -> Any:
    """(C, P + C - 1): for each token what stood before it, filled up with the prompt's first token."""
    width = len(prompt) + len(completion) - 1
    rows = [[*prompt, *completion[:place]] for place in range(len(completion))]
    return torch.tensor([[*row, *[row[0]] * (width - len(row))] for row in rows], device=device)


def _base(trainer: Any) -> Any:
    model = trainer.accelerator.unwrap_model(trainer.model)
    return model.get_base_model() if hasattr(model, "get_base_model") else model
