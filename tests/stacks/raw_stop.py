"""Failure 4 with TRL alone, generating with transformers: a completion that is to end at a character."""

import json
from pathlib import Path
from types import FrameType
from typing import Any

from raw_logits import LOSSES
from raw_trl import WORDS, grpo_config, model_folder, trainer, watching

STOP = "5"


def _with_generation_config(folder: Path) -> Path:
    """A copy of the tiny model whose generation_config.json names the stop token beside the end-of-sequence token."""
    import shutil

    copy = folder / "model"
    shutil.copytree(model_folder(folder), copy)
    written = copy / "generation_config.json"
    ids = {"eos_token_id": [WORDS.index("<|im_end|>"), WORDS.index(STOP)]}
    written.write_text(json.dumps(json.loads(written.read_text()) | ids))
    return copy


def train(folder: Path, *, generation_kwargs: dict[str, Any], generation_config: bool = False) -> dict[str, int]:
    """One step; gives what became of completions with the stop token.

    generation_kwargs: as in GRPOConfig; none are given when empty. generation_config: the model's own file names the
    token. Counted are the completions that had the token before their last place: all of them, those in which nothing
    but padding follows it, and those whose mask ends with it.
    """
    found: dict[str, Any] = {}

    def scored(frame: FrameType, _: Any) -> None:
        if "completion_mask" in frame.f_locals:
            found.update({name: frame.f_locals[name].clone() for name in ("completion_ids", "completion_mask")})

    given = {"generation_kwargs": generation_kwargs} if generation_kwargs else {}
    path = _with_generation_config(folder) if generation_config else model_folder(folder)
    made = trainer(grpo_config(folder, max_steps=1, per_device_train_batch_size=32, **given), str(path))
    with watching({}, dict.fromkeys(LOSSES, scored)):
        made.train()
    token = WORDS.index(STOP)
    counts = {"with_stop": 0, "ended": 0, "masked_there": 0}
    for ids, mask in zip(found["completion_ids"].tolist(), found["completion_mask"].tolist(), strict=True):
        if token in ids[:-1]:
            place = ids.index(token)
            counts["with_stop"] += 1
            counts["ended"] += not any(ids[place + 1 :])
            counts["masked_there"] += mask == [1] * (place + 1) + [0] * (len(ids) - place - 1)
    return counts
