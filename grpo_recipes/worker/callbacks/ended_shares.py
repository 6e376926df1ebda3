"""Logs what ended the completions of each training generation: a stop, the model's own end token, or the length limit.

TRL's clipped ratio cannot tell a stop that works from a stop that is never reached. completions/ended_by_stop, _by_eos
and _by_length are shares that sum to 1, and completions/with_tokens_after_end is the share with trained tokens after
the end, which must be 0. They are computed from TRL's training batch over all processes, so they are the same for every
backend. Since 0.26, TRL counts a completion that was cut after a generated PAD as ended; its clipped ratio and the
lengths of ended completions are replaced by those of the same count. Not on trl 0.14, which generates inside its loss.

A completion that mask_truncated_completions leaves out has no tokens and counts as ended by its length. With tool
replies the last turn counts; a reply can be the end only if no more tokens fit.
"""

from typing import Any

import torch

from grpo_recipes.contract.metric_names import (
    CLIPPED_RATIO,
    MAX_ENDED_LENGTH,
    MEAN_ENDED_LENGTH,
    MIN_ENDED_LENGTH,
    TOKENS_AFTER_END,
)
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.equal_rewards import hands_advantages_on, watch_groups
from grpo_recipes.worker.ends.ends import EOS, LENGTH, STOP, Ends, ends_of, how_ended, last_turn

WAYS = (STOP, EOS, LENGTH)


def log_ends(trainer: Any, plan: Plan) -> None:
    """Makes the trainer log the shares of each generation."""
    if not hands_advantages_on(trainer):
        return
    ends = ends_of(trainer, plan)

    def log(_: Any, __: Any, batch: dict[str, Any]) -> None:
        own = torch.tensor(ended(batch, ends), device=batch["completion_mask"].device)
        ways, has_more, lengths = trainer.accelerator.gather(own).double().unbind(1)
        logged = trainer.seams.figures()
        for index, way in enumerate(WAYS):
            logged[f"completions/ended_by_{way}"].append((ways == index).double().mean().item())
        logged[TOKENS_AFTER_END].append(has_more.mean().item())
        if not logged.get(CLIPPED_RATIO):
            return
        is_cut = ways == WAYS.index(LENGTH)
        of_ended = lengths[~is_cut] if not is_cut.all() else torch.zeros(1)
        logged[CLIPPED_RATIO][-1] = is_cut.double().mean().item()
        for name, value in ((MEAN_ENDED_LENGTH, of_ended.mean()), (MIN_ENDED_LENGTH, of_ended.min())):
            logged[name][-1] = value.item()
        logged[MAX_ENDED_LENGTH][-1] = of_ended.max().item()

    watch_groups(trainer, "ends", log)


def ended(batch: dict[str, Any], ends: Ends) -> list[tuple[int, bool, int]]:
    """Returns for each completion the index of what ended it in WAYS, whether more tokens follow, and its length.

    batch: completion_ids and completion_mask, (B, C), and perhaps tool_mask.
    """
    ids, tokens = batch["completion_ids"].tolist(), batch["completion_mask"].sum(dim=1).tolist()
    turns = batch["tool_mask"].tolist() if "tool_mask" in batch else [None] * len(ids)
    rows = []
    for row, count, own in zip(ids, tokens, turns, strict=True):
        way, has_more = how_ended(last_turn(row[:count], own), ends)
        rows.append((WAYS.index(way), has_more, count if own is None else sum(own[:count])))
    return rows
