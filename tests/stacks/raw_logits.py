"""Failure 0 with TRL alone: which logits it takes its log-probabilities from, and whether these are right."""

from pathlib import Path
from types import FrameType
from typing import Any

from raw_trl import grpo_config, model_folder, trainer, watching

LOSSES = ("GRPOTrainer.compute_loss", "GRPOTrainer._compute_loss")


def _reference(model: Any, ids: Any, kept: int) -> Any:
    """(kept,) float32: log-probabilities of the last tokens of one sequence without padding, from a plain forward."""
    import torch

    with torch.no_grad():
        logits = model(input_ids=ids.unsqueeze(0)).logits[0].float()
    scored = logits[:-1].log_softmax(-1).gather(1, ids[1:].unsqueeze(1)).squeeze(1)
    return scored[-kept:]


def _largest_error(model: Any, found: dict[str, Any], padding: int, end: int) -> float:
    """Over all tokens of all completions, each up to and with its end-of-sequence token."""
    ids, logps, length = found["ids"], found["logps"], found["logps"].shape[1]
    errors = []
    for row, scored in zip(ids, logps, strict=True):
        completion = row[-length:]
        ends = (completion == end).nonzero()
        kept = int(ends[0]) + 1 if len(ends) else length
        prompt = row[:-length]
        sequence = row[(prompt == padding).sum() : len(prompt) + kept]
        errors.append((scored[:kept] - _reference(model, sequence, kept)).abs().max())
    return float(max(errors))


def observe(folder: Path, *, model: str, prompts: list[str]) -> dict[str, Any]:
    """One step; gives the shape of the logits, or None where none were built, and the largest error of a log-prob.

    model: a class of raw_trl.model_folder. shape: [B, rows, V]; completion, sequence: tokens, padding included.
    """
    import torch
    from transformers import AutoModelForCausalLM

    path = model_folder(folder, model)
    found: dict[str, Any] = {"shape": None}

    def scored(frame: FrameType, _: Any) -> None:
        local = frame.f_locals
        if "per_token_logps" in local and "logps" not in found:
            parts = ("prompt_ids", "completion_ids") if "prompt_ids" in local else ("prompt_completion_ids",)
            whole = torch.cat([local[part] for part in parts], 1)
            found.update(ids=whole.detach().clone(), logps=local["per_token_logps"].detach().clone())

    def forwarded(_: FrameType, returned: Any) -> None:
        if torch.is_grad_enabled() and getattr(returned, "logits", None) is not None:
            found["shape"] = list(returned.logits.shape)

    reference = AutoModelForCausalLM.from_pretrained(path)
    made = trainer(grpo_config(folder, max_steps=1), str(path), prompts=prompts)
    with watching({}, dict.fromkeys(LOSSES, scored) | {f"{type(made.model).__name__}.forward": forwarded}):
        made.train()
    tokenizer = made.processing_class
    return {
        "shape": found["shape"],
        "completion": found["logps"].shape[1],
        "sequence": found["ids"].shape[1],
        "error": _largest_error(reference, found, tokenizer.pad_token_id, tokenizer.eos_token_id),
    }
