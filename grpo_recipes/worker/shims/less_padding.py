"""Pads rows to the longest of their micro-batch, not of the whole generation.

Defect: TRL pads a whole generation batch to its longest prompt and its longest completion, shuffles it and cuts it into
micro-batches. With completions as long as GSM8K's, half of the tokens that the model then computes for scores and
updates are padding, with MATH's two thirds.
Seen: trl 0.20.0 to 1.16.0 (grpo_trainer.py, `_prepare_inputs` and `_get_per_token_logps_and_entropies`).
Remove when: TRL does so itself.

Masks, advantages and log-probabilities keep TRL's layout, (B, C). Rows are narrowed inside the scoring function.
"sorted" also moves rows between the micro-batches of an optimizer step, so that rows of similar length share a
micro-batch; "packed" does not move rows, for losses that depend on their micro-batch.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from trl.trainer import grpo_trainer

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.library import has_fused_loss
from grpo_recipes.worker._shared.replacing import replace_temporarily

# Models whose scores do not depend on padding, if their rotary positions and layers are of these kinds.
FAMILIES = {
    "apertus", "arcee", "cohere", "cohere2", "cwm", "ernie4_5", "exaone4", "gemma", "gemma2", "gemma3_text", "glm",
    "glm4", "gpt_neox", "gpt_oss", "granite", "granitemoe", "helium", "llama", "mistral", "mixtral",
    "olmo", "olmo2", "olmo3", "phi", "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "seed_oss", "smollm3",
    "stablelm", "starcoder2",
}  # fmt: skip
ROTARY = {"default", "linear", "llama3", "yarn"}
LAYERS = {"full_attention", "sliding_attention"}
_PADDED = "padded scores"


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Narrows the scored rows, and with "sorted" orders the rows of an optimizer step by length."""
    reason = _why_not(trainer)
    if reason:
        return f"nothing: {reason}"
    trainer.seams.own[_PADDED] = trainer.seams.inside("tokens are scored", "less padding")
    multiple = getattr(trainer, "pad_to_multiple_of", None) or 1
    trainer.seams.change("tokens are scored", "less padding", functools.partial(_score_narrowed, multiple))
    # A window is trained by a single step, whichever of the two numbers is larger.
    window = math.gcd(trainer.args.steps_per_generation, trainer.args.gradient_accumulation_steps)
    if value == "sorted" and window > 1:
        _sort(trainer, window)
        return f"rows are sorted over {window} micro-batches"
    return "rows are packed"


def padded_scores(trainer: Any) -> Callable[..., tuple[Any, ...]] | None:
    """Returns TRL's own scoring method, None if the trainer still uses it."""
    padded: Callable[..., tuple[Any, ...]] | None = trainer.seams.own.get(_PADDED)
    return padded


def _why_not(trainer: Any) -> str:
    """Returns why this trainer's padding has to stay, "" if it can be cut."""
    if has_fused_loss(trainer):
        return "Liger's loss does not use the scoring method"
    model = trainer.accelerator.unwrap_model(trainer.model)
    config = model.config
    name = type(model.get_base_model() if hasattr(model, "get_base_model") else model).__name__
    if config.model_type not in FAMILIES:
        return f"{name} is not known to score a row the same without its padding"
    kinds = {kind for module in model.modules() for kind in _rotary_kinds(module)}
    kinds |= set(getattr(config, "layer_types", None) or ()) - LAYERS
    if not kinds or not kinds <= ROTARY:
        words = ", ".join(sorted(kinds)) or "no rotary positions"
        return f"{name} with {words} is not known to score a row the same without its padding"
    if getattr(trainer, "aux_loss_enabled", False):
        return f"the router loss of {name} covers all columns"
    return ""


def _rotary_kinds(module: Any) -> list[str]:
    kind = getattr(module, "rope_type", None)
    return [] if kind is None else list(kind.values()) if isinstance(kind, dict) else [kind]


def _score_narrowed(
    multiple: int,
    score: Callable[..., tuple[Any, ...]],
    model: Any,
    input_ids: Any,
    attention_mask: Any,
    logits_to_keep: int,
    batch_size: Any = None,
    **named: Any,
) -> Any:
    """Returns the tensors (B, C) of `_get_per_token_logps_and_entropies`, 0 at padding. multiple: of widths."""
    rows, full = input_ids.shape
    total, own = attention_mask.sum(1), attention_mask[:, full - logits_to_keep :].sum(1)
    lengths, completions = total.tolist(), own.tolist()
    others = {name for name, value in named.items() if value is not None} - {"compute_entropy", "compute_aux_loss"}
    is_empty = any(length == completion for length, completion in zip(lengths, completions, strict=True))
    if others or is_empty or min(lengths) == full:
        return score(model, input_ids, attention_mask, logits_to_keep, batch_size, **named)
    order = sorted(range(rows), key=lambda row: -lengths[row]) if batch_size else list(range(rows))
    size = batch_size or rows
    parts = []
    for some in (order[start : start + size] for start in range(0, rows, size)):
        width = min(full, math.ceil(max(lengths[row] for row in some) / multiple) * multiple)
        keep = max(1, *(completions[row] for row in some))
        # Padding moves to the left of each row, and columns beyond the longest row are cut.
        positions = attention_mask[some].argsort(dim=1, stable=True)[:, full - width :]
        ids, mask = (values[some].gather(1, positions) for values in (input_ids, attention_mask))
        scored = score(_as_in_place(model, positions, own[some]), ids, mask, keep, **named)
        parts.append([None if value is None else _widened(value, own[some], logits_to_keep) for value in scored])
    back = torch.tensor(order, device=input_ids.device).argsort()
    return tuple(None if values[0] is None else torch.cat(values)[back] for values in zip(*parts, strict=True))


def _as_in_place(model: Any, positions: Any, own: Any) -> Callable[..., Any]:
    """Returns the model with tokens at TRL's positions (B, W), to get TRL's rounding.

    Labels before the last own (B,) columns of each row are removed, because the head computes every token with a label.
    """

    def forward(**named: Any) -> Any:
        named["position_ids"] = positions
        if (labels := named.get("labels")) is not None:
            column = torch.arange(labels.shape[1], device=labels.device)
            named["labels"] = labels.masked_fill(column < labels.shape[1] - own[:, None], -100)
        return model(**named)

    return forward


def _widened(values: Any, own: Any, columns: int) -> Any:
    """Returns (B, columns) from values (B, K): the last own (B,) columns of each row first, then 0."""
    column, last = torch.arange(columns, device=values.device), values.shape[1]
    own = own[:, None]
    return values.gather(1, (last - own + column).clamp(max=last - 1)).masked_fill(column >= own, 0)


def _sort(trainer: Any, window: int) -> None:
    """Orders the rows of each window of micro-batches that an optimizer step trains, after TRL has shuffled them."""
    cut = grpo_trainer.split_tensor_dict

    def split(batch: dict[str, Any], count: int) -> list[dict[str, Any]]:
        # Batches with images stay unsorted.
        if any(isinstance(value, list) for value in batch.values()):
            return list(cut(batch, count))
        order = _order(batch["prompt_mask"].sum(1) + batch["completion_mask"].sum(1), count // window)
        rows = {name: value[order] if getattr(value, "ndim", 0) else value for name, value in batch.items()}
        return list(cut(rows, count))

    trainer.seams.surround(
        "batch is prepared", "sorted rows", lambda: replace_temporarily(grpo_trainer, "split_tensor_dict", split)
    )


def _order(lengths: Any, windows: int) -> list[int]:
    """Returns each window's rows, longest first. lengths: tokens of each row, (N,)."""
    total = lengths.tolist()
    size = len(total) // windows
    starts = range(0, len(total), size)
    return [row for start in starts for row in sorted(range(start, start + size), key=lambda row: -total[row])]
