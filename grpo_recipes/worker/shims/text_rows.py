"""Trains rows of text among rows with images.

Defect: TRL gives a processor None for a row without images, which raises TypeError. It passes a micro-batch of text
tensors of no images, which most models refuse. It divides the images of Idefics3 by their number if that is the number
of rows, although each row has a tensor. Only processes with images gather them for the log, so others wait forever.
Seen: trl 1.16.0 (grpo_trainer.py: `_tokenize_prompts`, `_get_per_token_logps_and_entropies`,
`_generate_and_score_completions`; trainer/utils.py: `split_pixel_values_by_grid`).
Remove when: TRL trains such rows itself.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from accelerate.utils import gather_object
from trl.data_utils import prepare_multimodal_messages
from trl.trainer import grpo_trainer

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.inputs import IMAGES
from grpo_recipes.worker._shared.library import OF_TOKENS
from grpo_recipes.worker._shared.replacing import replace_temporarily
from grpo_recipes.worker.data.images import rows_of_text

COUNTS, PIXELS, MASK = "num_images", "pixel_values", "pixel_attention_mask"
_OF_IMAGES = (PIXELS, MASK, "image_grid_thw", "image_position_ids", "image_sizes")


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Stands before TRL's methods if some rows of the training have no image."""
    count = len(rows_of_text(trainer.train_dataset))
    if value is not True or count == 0:
        return ""
    if trainer.is_world_process_zero():
        print(f"{count} of {len(trainer.train_dataset)} rows have no image, and are trained as text", flush=True)
    layers = (_tokenize_with_lists, functools.partial(_log_everywhere, trainer), _score_by_row)
    events = ("prompts are tokenized", "completions are made", "tokens are scored")
    for event, layer in zip(events, layers, strict=True):
        trainer.seams.change(event, "rows of text", layer)
    if (handler := trainer.accelerator.ddp_handler) is not None:
        handler.find_unused_parameters = True  # a process whose micro-batch is text does not run the vision part
    return f"{count} of {len(trainer.train_dataset)} rows are text"


def _tokenize_with_lists(tokenize: Callable[..., Any], prompts: Any) -> Any:
    """Returns TRL's tokens, whose images go to the processor again for the loss."""
    ids, images, fields = tokenize(prompts)
    return ids, None if images is None else [of_row or [] for of_row in images], fields


def _log_everywhere(trainer: Any, generate: Callable[..., Any], rows: Any) -> Any:
    """Generates, and lets every process log its images, also if it has none.

    Rewards get prompts in parts from any batch; TRL leaves those of a batch of text as they are.
    """
    in_parts = [{**row, "prompt": prepare_multimodal_messages(row["prompt"])} for row in rows]
    logs = trainer.log_multimodal
    with replace_temporarily(trainer, "log_multimodal", False):
        made = generate(rows if any(row[IMAGES] for row in rows) else in_parts)
    if logs:
        trainer.seams.value("_logs")[IMAGES].extend(gather_object([row[IMAGES] for row in rows]))
    return {**made, COUNTS: [1] * len(rows)} if MASK in made else made


def _score_by_row(
    score: Callable[..., Any], model: Any, ids: Any, mask: Any, keep: int, batch_size: int | None = None, **named: Any
) -> Any:
    """Scores each batch with the images of its rows, and without any if it is text."""
    if named.get(COUNTS) is None:
        return score(model, ids, mask, keep, batch_size, **named)
    size = batch_size or len(ids)
    rows = [slice(start, start + size) for start in range(0, len(ids), size)]
    parts = [score(model, ids[some], mask[some], keep, **_of_rows(named, some)) for some in rows]
    logps, entropies, losses = zip(*parts, strict=True)
    return (
        torch.cat(logps),
        None if entropies[0] is None else torch.cat(entropies),
        None if losses[0] is None else torch.stack(losses).mean(),
    )


def _of_rows(named: dict[str, Any], some: slice) -> dict[str, Any]:
    """Returns the keywords for a part of the rows."""
    images = {name: named[name] for name in (COUNTS, *_OF_IMAGES) if named.get(name) is not None}
    others = {name: value for name, value in named.items() if name not in images}
    others |= {name: others[name][some] for name in OF_TOKENS if others.get(name) is not None}
    if MASK in images:  # a tensor for each row, padded with empty tiles
        own = {name: images[name][some] for name in (PIXELS, MASK)}
        return {**others, **own, COUNTS: [1] * len(own[PIXELS])} if own[MASK].any() else others
    counts = images[COUNTS][some]
    if sum(counts) == 0:
        return others
    by_row = grpo_trainer.split_pixel_values_by_grid(images)
    return {**others, **grpo_trainer.unsplit_pixel_values_by_grid({name: by_row[name][some] for name in by_row})}
