"""Experiments that train a run folder with the worker, in the process of a stack."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

Given = list[tuple[list[int], list[list[int]]]]
"""Prompt tokens and the completions of its group; a completion ends with its end token or has the full length."""

DTYPES = ("lora_A", "lora_magnitude", "norm")


def gradients(folder: Path, *, run_folder: str, completions: Given) -> dict[str, Any]:
    """Trains with completions that are given instead of sampled, and keeps the gradient of every step.

    Sampling is what differs between releases for reasons that are no mistake; with fixed completions the gradient is a
    number that can be computed once more. Only for optim: sgd in one process. The file holds a list: {name: weight} of
    the trained tensors before the first step, then {name: gradient} of each optimizer step.
    """
    import transformers

    trainers, kept = _trainers(), list[dict[str, torch.Tensor]]()
    step = torch.optim.SGD.step

    def stepping(optimizer: Any, *given: Any, **named: Any) -> Any:
        trained = {n: p for n, p in trainers[-1].model.named_parameters() if p.requires_grad}
        if not kept:
            kept.append({name: parameter.detach().clone() for name, parameter in trained.items()})
        kept.append({name: parameter.grad.detach().clone() for name, parameter in trained.items()})
        return step(optimizer, *given, **named)

    torch.optim.SGD.step = stepping  # type: ignore[method-assign]
    transformers.Qwen2ForCausalLM.generate = _dictating(completions)
    exit_code = _train(run_folder)
    torch.save(kept, folder / "gradients.pt")
    return {"exit_code": exit_code, "file": str(folder / "gradients.pt"), "first": _digest(kept)}


def samples(folder: Path, *, run_folder: str) -> dict[str, Any]:
    """Trains with what transformers generates: the tokens of each generation, and how far the weights went (L2)."""
    import transformers

    trainers, generated, before = _trainers(), list[list[list[int]]](), dict[str, torch.Tensor]()
    generate = transformers.Qwen2ForCausalLM.generate

    def listening(model: Any, *given: Any, **named: Any) -> Any:
        if not before:
            before.update({n: p.detach().clone() for n, p in model.named_parameters()})
        ids = given[0] if given else named["input_ids"]
        answer = generate(model, *given, **named)
        generated.append(answer[:, ids.shape[1] :].tolist())
        return answer

    transformers.Qwen2ForCausalLM.generate = listening
    exit_code = _train(run_folder)
    moved = [(p.detach() - before[n]).square().sum() for n, p in trainers[-1].model.named_parameters() if n in before]
    return {"exit_code": exit_code, "generated": generated, "distance": float(torch.stack(moved).sum().sqrt())}


def trained(folder: Path, *, run_folder: str) -> dict[str, Any]:
    """Trains, and says which LoRA B matrices are zero at the end."""
    trainers = _trainers()
    exit_code = _train(run_folder)
    weights = dict(trainers[-1].model.named_parameters()) if trainers else {}
    adapters = {name: weight for name, weight in weights.items() if ".lora_B." in name}
    return {
        "exit_code": exit_code,
        "adapters": len(adapters),
        "zero": [name for name, weight in adapters.items() if not weight.detach().abs().sum()],
    }


def decayed(folder: Path, *, run_folder: str) -> dict[str, Any]:
    """Trains, and says which tensors the optimizer decays, and how many groups of tensors it has."""
    trainers = _trainers()
    exit_code = _train(run_folder)
    names = {id(parameter): name for name, parameter in trainers[-1].model.named_parameters()}
    groups = trainers[-1].optimizer.param_groups
    found = [names[id(p)] for group in groups if group["weight_decay"] for p in group["params"]]
    return {"exit_code": exit_code, "decayed": sorted(found), "groups": len(groups)}


def dtypes(folder: Path, *, run_folder: str) -> dict[str, Any]:
    """Trains. Returns the dtypes of the adapter's and the norms' tensors."""
    trainers = _trainers()
    exit_code = _train(run_folder)
    weights = trainers[-1].model.named_parameters()
    found = {(part, str(weight.dtype)) for name, weight in weights for part in DTYPES if part in name}
    return {"exit_code": exit_code, "dtypes": {part: dtype.removeprefix("torch.") for part, dtype in found}}


def _trainers() -> list[Any]:
    """A list that gets every trainer that the worker builds from now on."""
    from grpo_recipes.worker import training

    built: list[Any] = []
    build = training.build_trainer

    def building(*given: Any, **named: Any) -> Any:
        built.append(build(*given, **named))
        return built[-1]

    training.build_trainer = building
    return built


def _train(run_folder: str) -> int:
    from grpo_recipes.worker.run import train

    return train(Path(run_folder), resume=False)


def _digest(kept: list[dict[str, torch.Tensor]]) -> str:
    """A digest of the trained tensors before the first step."""
    found = hashlib.sha256()
    for name, tensor in sorted(kept[0].items()) if kept else []:
        found.update(name.encode() + tensor.float().numpy().tobytes())
    return found.hexdigest()


def _dictating(given: Given) -> Callable[..., torch.Tensor]:
    """A `generate` that answers the prompts of a batch with the completions of their groups, in order."""
    completions = {tuple(prompt): group for prompt, group in given}

    def generate(model: Any, inputs: Any = None, **named: Any) -> torch.Tensor:
        ids = inputs if inputs is not None else named["input_ids"]
        mask, config = named["attention_mask"], named["generation_config"]
        copies = config.num_return_sequences or 1  # trl 0.14 asks for the whole group of each prompt
        ids, mask = ids.repeat_interleave(copies, dim=0), mask.repeat_interleave(copies, dim=0)
        seen: dict[tuple[int, ...], int] = {}
        rows = []
        for row, ones in zip(ids.tolist(), mask.tolist(), strict=True):
            prompt = tuple(token for token, one in zip(row, ones, strict=True) if one)
            place = seen[prompt] = seen.get(prompt, -1) + 1
            rows.append(completions[prompt][place % len(completions[prompt])])
        width = max(map(len, rows))
        padded = [row + [config.pad_token_id] * (width - len(row)) for row in rows]
        return torch.cat([ids, torch.tensor(padded, device=ids.device)], dim=1)

    return generate
