"""GRPO on fixed completions, written out once more: one sequence at a time, without padding, in float64.

It shares nothing with TRL but the definition of the loss (the GRPO paper, and for the normalisers Dr. GRPO and DAPO):

    A = (r - mean) / (std + 1e-4) in each group, std with n - 1
    l_t = -exp(p_t - sg(p_t)) A + beta (exp(q_t - p_t) - (q_t - p_t) - 1)

where p_t and q_t are log-probabilities of token t under the policy and under the reference, which is the model before
the first step. The generations of a step are on-policy, so no ratio is ever clipped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

Tensors = dict[str, torch.Tensor]
EPSILON_OF_STD = 1e-4


@dataclass(frozen=True)
class Sample:
    """One completion: its prompt, its tokens with the one that ends it, its reward. Group: place of the prompt."""

    group: int
    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    reward: float


@dataclass(frozen=True)
class Algorithm:
    """What defines the loss. learning_rate: of plain SGD. max_completion_length: the divisor of dr_grpo, in tokens."""

    loss_type: str
    beta: float
    learning_rate: float
    max_completion_length: int
    temperature: float = 1.0


@dataclass(frozen=True)
class Adapter:
    """LoRA: matrices by PEFT's names, and the factor alpha / r."""

    matrices: Mapping[str, torch.Tensor]
    scale: float


def gradients(
    model: Path, samples: Sequence[Sample], algorithm: Algorithm, steps: int, adapter: Adapter | None = None
) -> list[Tensors]:
    """The gradient of every trained tensor at each of the steps, by its name in the trainer, float64."""
    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float64, attn_implementation="eager")
    base = {name: parameter.detach().clone() for name, parameter in policy.named_parameters()}
    trained = base if adapter is None else {name: m.double().clone() for name, m in adapter.matrices.items()}
    reference = [_log_probs(policy, base, sample, algorithm) for sample in samples]
    found = []
    for _ in range(steps):
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in trained.items()}
        weights = leaves if adapter is None else _merged(base, leaves, adapter.scale)
        loss = _loss(policy, weights, samples, reference, algorithm)
        found.append(dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True)))
        trained = {name: tensor - algorithm.learning_rate * found[-1][name] for name, tensor in trained.items()}
    return found


def relative_difference(found: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor]) -> float:
    """The L2 norm of the difference of two gradients as whole vectors, relative to that of `wanted`.

    Raises KeyError when they are not of the same tensors.
    """
    if found.keys() != wanted.keys():
        raise KeyError(f"other tensors: {sorted(found.keys() ^ wanted.keys())[:6]}")
    difference = sum((found[name].double() - wanted[name]).square().sum() for name in wanted)
    norm = sum(tensor.square().sum() for tensor in wanted.values())
    return float((difference / norm).sqrt())


def _loss(
    policy: torch.nn.Module,
    weights: Tensors,
    samples: Sequence[Sample],
    reference: Sequence[torch.Tensor],
    algorithm: Algorithm,
) -> torch.Tensor:
    sums, lengths = [], []
    for sample, advantage, fixed in zip(samples, _advantages(samples), reference, strict=True):
        log_probs = _log_probs(policy, weights, sample, algorithm)
        difference = fixed.detach() - log_probs
        kl = difference.exp() - difference - 1
        sums.append((-(log_probs - log_probs.detach()).exp() * advantage + algorithm.beta * kl).sum())
        lengths.append(len(sample.completion))
    total = torch.stack(sums)
    if algorithm.loss_type == "grpo":
        return (total / torch.tensor(lengths, dtype=torch.float64)).mean()
    if algorithm.loss_type == "dr_grpo":
        return total.sum() / (len(samples) * algorithm.max_completion_length)
    if algorithm.loss_type in ("bnpo", "dapo"):  # they differ in the batch they sum over, and here it is the whole one
        return total.sum() / sum(lengths)
    raise ValueError(f"no such loss: {algorithm.loss_type}")


def _log_probs(policy: torch.nn.Module, weights: Tensors, sample: Sample, algorithm: Algorithm) -> torch.Tensor:
    """(C,): of the completion's tokens."""
    ids = torch.tensor([[*sample.prompt, *sample.completion]])
    logits = torch.func.functional_call(policy, weights, (ids,), tie_weights=True).logits[0]
    start = len(sample.prompt)
    scores = (logits[start - 1 : -1] / algorithm.temperature).log_softmax(-1)
    return scores.gather(1, ids[0, start:, None])[:, 0]


def _advantages(samples: Sequence[Sample]) -> list[float]:
    groups: dict[int, list[float]] = {}
    for sample in samples:
        groups.setdefault(sample.group, []).append(sample.reward)
    found = []
    for sample in samples:
        rewards = torch.tensor(groups[sample.group], dtype=torch.float64)
        found.append(float((sample.reward - rewards.mean()) / (rewards.std() + EPSILON_OF_STD)))
    return found


def _merged(base: Tensors, adapter: Tensors, scale: float) -> Tensors:
    """The weights with the adapter multiplied into them; names of the adapter are PEFT's."""
    weights = dict(base)
    for name, second in adapter.items():
        if ".lora_B." not in name:
            continue
        first = adapter[name.replace(".lora_B.", ".lora_A.")]
        target = name.removeprefix("base_model.model.").partition(".lora_B.")[0] + ".weight"
        weights[target] = base[target] + scale * second @ first
    return weights
