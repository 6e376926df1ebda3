"""Writes some completions of each generation to completions.jsonl, for reading after the run.

The recipe's seed and the step choose which ones, not their rewards. Only the first process writes, and only its own
completions. Not on trl 0.14 and 0.15, which have no separate method for generation.
"""

import base64
import io
import math
import os
import random
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, cast

from grpo_recipes.contract.files.folder_files import open_to_append
from grpo_recipes.contract.metrics import COMPLETIONS_FILE
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.secrets.redact import redact_value
from grpo_recipes.worker._shared.inputs import IMAGES, answer_text, prompt_text
from grpo_recipes.worker._shared.library import micro_batches_per_generation
from grpo_recipes.worker._shared.metrics import append_event, forget_after
from grpo_recipes.worker._shared.prefill import Prefill
from grpo_recipes.worker.completions.evaluation import judged_by
from grpo_recipes.worker.ends.ends import LENGTH, Ends, ends_of, how_ended, last_turn

_TRAINED = ("completion_ids", "completion_mask", "advantages")
MOST_BYTES = 32 << 20
"""Budget in bytes for a run's texts; nothing is added to a file of twice this size."""
MOST_STEPS = 1000
"""Number of a run's steps whose completions are kept, evenly spaced."""
REPLY = "[reply] "
_MOST_OF_A_ROW = 64 << 10
_PART_OF_THE_PROMPT = 4
_MOST_IMAGES, _SIDE = 4, 96
_SHOWN = 3


def keep_completions(trainer: Any, plan: Plan, folder: Path, *, resume_step: int | None) -> None:
    """Makes the trainer write completions from now on, on the first process only.

    Each line is {"event": "completions", "step", "time", "rows"}; step is the first that trains on them. A row has
    prompt (including the text an environment added), "prefill" (the part of the answer that the prompt contains, if
    any) and completion, as text without secrets, "rewards" by name (None
    where a function returned none, {} if the TRL release does not log them), "reward", their weighted sum, "advantage",
    "tokens" and "ended": stop, eos or length. With tools, "replies" counts the replies, which are in the completion's
    text, each on its own lines after REPLY. resume_step: as for MetricsLog; rows of later steps are removed.
    """
    if plan.kept_completions == 0 or not trainer.is_world_process_zero():
        return
    if not trainer.seams.has("completions are made"):
        return
    forget_after(folder / COMPLETIONS_FILE, -1 if resume_step is None else resume_step)
    writer = KeptCompletions(trainer, plan, folder)

    def look(batch: Any, inputs: Any) -> None:
        if trainer.model.training:
            writer.write(trainer.state.global_step + 1, inputs, batch)

    trainer.seams.observe("completions are made", "kept completions", look)


class KeptCompletions:
    """Chooses the completions of a generation and writes them to the open file."""

    def __init__(self, trainer: Any, plan: Plan, folder: Path) -> None:
        self._trainer, self._plan = trainer, plan
        self._prefill = Prefill.of_plan(plan, lambda: trainer.processing_class)
        self._path = folder / COMPLETIONS_FILE
        self._file = open_to_append(folder, COMPLETIONS_FILE)
        self._ends: Ends | None = None
        self._last_step = 0

    def write(self, step: int, prompts: Any, batch: Any) -> None:
        """Writes a line for a generation, unless its step is skipped or the file is full. Raises OSError.

        prompts: rows of the dataset. batch: TRL's, tensors of (B, ...) in the same order.
        """
        if step == self._last_step:
            return  # older releases generate for each micro-batch of a step
        last = max(1, self._trainer.state.max_steps)
        every = math.ceil(last / MOST_STEPS)
        arguments = self._trainer.args
        between = micro_batches_per_generation(arguments) // max(1, arguments.gradient_accumulation_steps)
        # The first generation in each interval of this many steps.
        if (step - 1) % every >= max(1, between) or os.fstat(self._file).st_size > 2 * MOST_BYTES:
            return
        count = min(self._plan.kept_completions, len(prompts))
        if len(batch["completion_ids"]) != len(prompts):
            return  # a custom rollout that answers each prompt more than once
        draw = random.Random(f"{arguments.seed} {step} completions")  # not the generator that training depends on
        places = sorted(draw.sample(range(len(prompts)), count))
        room = min(_MOST_OF_A_ROW, MOST_BYTES // (min(last, MOST_STEPS) * count))
        self._last_step = step
        rows = fit_to_keep(self._rows(places, prompts, batch), room)
        append_event(self._file, self._path, "completions", step, {"rows": rows})

    def _rows(self, places: list[int], prompts: Any, batch: Any) -> list[dict[str, Any]]:
        if self._ends is None:
            self._ends = ends_of(self._trainer, self._plan)
        ids, masks, advantages = (batch[name][places].tolist() for name in _TRAINED)
        turns = batch["tool_mask"][places].tolist() if "tool_mask" in batch else [None] * len(places)
        shown, rewards = self._logged(prompts)
        # An environment's reward has no weight in the plan; TRL uses 1.
        weights = {reward.name: reward.weight for reward in self._plan.rewards}
        rows = []
        for row, index in enumerate(places):
            trained, own = ids[row][: sum(masks[row])], turns[row]
            ended, _ = how_ended(last_turn(trained, own), self._ends) if trained else (LENGTH, False)
            whole = trained or ids[row]  # without a mask, mask_truncated_completions left it out
            parts = parted(whole, own if trained else None)
            replies = sum(not is_own for is_own, _ in parts)
            of_row = {name: _known(values[index]) for name, values in rewards.items()}
            given = [weights.get(name, 1.0) * value for name, value in of_row.items() if value is not None]
            advantage = None if isinstance(advantages[row], list) else _known(advantages[row])
            rows.append(
                {
                    "prompt": prompt_text(shown[index]),
                    **({"prefill": prefill} if (prefill := self._prefill([prompts[index]["prompt"]])[0]) else {}),
                    "completion": self._text(parts),
                    **({"replies": replies} if replies else {}),
                    "rewards": of_row,
                    "reward": math.fsum(given) if given else None,
                    "advantage": advantage,
                    "tokens": len(whole),
                    "ended": ended,
                    **small_images(prompts[index].get(IMAGES)),
                }
            )
        return rows

    def _text(self, parts: list[tuple[bool, list[int]]]) -> str:
        """Returns the policy's text, with tool replies between its turns."""
        assert self._ends is not None
        decode = self._ends.tokenizer.decode
        texts = [(is_own, decode(tokens, skip_special_tokens=True)) for is_own, tokens in parts]
        if len(texts) == 1:
            return str(texts[0][1])
        return "\n".join(text if is_own else f"{REPLY}{text.strip()}" for is_own, text in texts)

    def _logged(self, rows: Any) -> tuple[list[Any], dict[str, list[float]]]:
        """Returns the prompts that the model saw, and each reward's values by name, for this process's completions.

        TRL logs both for all processes, the first one's first. Its prompts matter if an environment's reset() appends
        text; {} if a release does not log each reward.
        """
        logs = self._trainer.seams.table()
        everywhere = len(rows) * self._trainer.accelerator.num_processes
        prompts, *columns = (
            list(column)[-everywhere:] for column in (logs.get("prompt", ()), *logs.get("rewards", {}).values())
        )
        if not self._plan.all_environments or len(prompts) < everywhere:
            prompts = [row["prompt"] for row in rows]
        names = judged_by(self._trainer, self._plan)
        if len(columns) != len(names) or any(len(column) < everywhere for column in columns):
            return prompts, {}
        return prompts, dict(zip(names, columns, strict=True))


def last_texts(trainer: Any) -> list[str]:
    """Returns the texts of the completions that the trainer logged last; [] for a release that keeps none."""
    logs = trainer.seams.table()
    return [str(redact_value(answer_text(completion))) for completion in list(logs.get("completion", ()))[-_SHOWN:]]


def small_images(images: Sequence[Any] | None) -> dict[str, list[str]]:
    """Returns "images" of a row for completions.jsonl, from Pillow images; {} without any."""
    thumbnails = []
    for image in (images or ())[:_MOST_IMAGES]:
        small, written = image.convert("RGB"), io.BytesIO()
        small.thumbnail((_SIDE, _SIDE))
        small.save(written, "JPEG")
        thumbnails.append(base64.b64encode(written.getvalue()).decode())
    return {IMAGES: thumbnails} if thumbnails else {}


def fit_to_keep(rows: list[dict[str, Any]], room: int) -> list[dict[str, Any]]:
    """Returns the rows without secrets, with at most `room` bytes of prompts and completions plus notes on cuts."""
    texts = iter(cast("list[str]", redact_value([row[name] for row in rows for name in ("prompt", "completion")])))
    of_prompt = room // _PART_OF_THE_PROMPT
    return [
        row | {"prompt": shortened(next(texts), of_prompt), "completion": shortened(next(texts), room - of_prompt)}
        for row in rows
    ]


def parted(ids: list[int], own: Sequence[int] | None) -> list[tuple[bool, list[int]]]:
    """Splits a completion's tokens into the policy's turns (True) and tool replies (False). own: as for last_turn()."""
    if own is None:
        return [(True, ids)]
    pairs = groupby(zip(ids, own, strict=False), key=lambda pair: bool(pair[1]))
    return [(is_own, [token for token, _ in part]) for is_own, part in pairs] or [(True, ids)]


def shortened(text: str, room: int) -> str:
    """Returns the text with its middle left out if it has more than `room` bytes; the end holds the answer."""
    content = text.encode("utf-8", "replace")
    if len(content) <= room:
        return content.decode()
    start, end = content[: room // 2].decode(errors="ignore"), content[-(room // 2) :].decode(errors="ignore")
    return f"{start}\n[{len(text) - len(start) - len(end)} characters left out]\n{end}"


def _known(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None


def redact_completions(trainer: Any) -> None:
    """Redacts the trainer's tables from now on: prompts, completions, and what rewards add with `log_extra`.

    Does nothing if the trainer shows no tables (log_completions).
    """
    if not getattr(trainer, "log_completions", True):
        return

    @contextmanager
    def redacted_table() -> Iterator[None]:
        table = trainer.seams.table()
        table |= {name: _redact(table[name]) for name in ("prompt", "completion") if name in table}
        if isinstance(extra := table.get("extra"), dict):
            redacted = {str(redact_value(str(name))): _redact(values) for name, values in extra.items()}
            extra.clear()
            extra.update(redacted)
        yield

    trainer.seams.surround("figures are logged", "secrets", redacted_table)


def _redact(values: Any) -> Any:
    """Returns a list or deque with its texts redacted; numbers and images are unchanged."""
    texts = cast("list[Any]", redact_value(list(values)))
    return deque(texts, maxlen=values.maxlen) if isinstance(values, deque) else texts
