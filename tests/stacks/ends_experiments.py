"""Failure 4 with the shims: a training step on completions that are dictated, and what became of each.

The tokens are dictated to the real `generate`, which ends a row where its own stopping criteria say so.
"""

import json
import shutil
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

from raw_logits import LOSSES
from raw_trl import END, grpo_config, model_folder, watching

INSIDE, SPECIAL = "a12b", "<|stop|>"  # an ordinary token that has the text 12 in it, and a special one
PROMPT = "12+1"


def _folder(folder: Path, declared: list[str], pad_is_end: bool) -> Path:
    """The tiny model with two more tokens. declared: the tokens that its generation_config.json ends at."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    made = folder / "model"
    shutil.copytree(model_folder(folder), made)
    tokenizer = AutoTokenizer.from_pretrained(made)
    tokenizer.add_tokens([INSIDE])
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", SPECIAL]})
    if pad_is_end:
        tokenizer.pad_token = END
    tokenizer.save_pretrained(made)
    model = AutoModelForCausalLM.from_pretrained(made)
    model.resize_token_embeddings(len(tokenizer))
    model.save_pretrained(made)
    written = made / "generation_config.json"
    ids = {"eos_token_id": tokenizer.convert_tokens_to_ids(declared)}
    written.write_text(json.dumps(json.loads(written.read_text()) | ids))
    return made


def _dictate(rows: list[list[int]]) -> None:
    """Lets the model write these tokens, one row of a batch after the other, as long as it is let go on."""
    import torch
    from transformers import LogitsProcessor, LogitsProcessorList, Qwen2ForCausalLM

    class Dictated(LogitsProcessor):
        prompt: int | None = None

        def __call__(self, input_ids: Any, scores: Any) -> Any:
            self.prompt = input_ids.shape[1] if self.prompt is None else self.prompt
            place = input_ids.shape[1] - self.prompt
            tokens = [rows[row % len(rows)][place] for row in range(len(input_ids))]
            forced = torch.full_like(scores, float("-inf"))
            forced[range(len(tokens)), tokens] = 0.0
            return forced

    original = Qwen2ForCausalLM.generate

    def generate(self: Any, *given: Any, **named: Any) -> Any:
        return original(self, *given, **named, logits_processor=LogitsProcessorList([Dictated()]))

    Qwen2ForCausalLM.generate = generate


def _shim(trainer: Any, name: str, stop: list[str], stop_token_ids: list[int]) -> str:
    import importlib

    from grpo_recipes.contract.plan_sections import Expect

    expect = Expect(1, 0, "full", None, {}, stop=tuple(stop), stop_token_ids=tuple(stop_token_ids))
    shim = importlib.import_module(f"grpo_recipes.worker.shims.{name}")
    said: str = shim.on_trainer(trainer, True, SimpleNamespace(expect=expect))
    return said


def train(
    folder: Path,
    *,
    completions: list[list[str]],
    shim: str,
    stop: list[str],
    stop_tokens: list[str],
    declared: list[str],
    pad_is_end: bool,
    lora: bool,
    arguments: dict[str, Any],
) -> dict[str, Any]:
    """One step on the dictated completions, given as tokens; gives what TRL made of each and what it logged.

    trained: the tokens that the mask trains, of all rows in some order; rest: what the others are; holes: rows whose
    mask is not ones and then zeros. texts: what the reward was given; handed: how many tokens each had that it was
    given, empty where it gets none. items: num_items_in_batch, None where there is none.
    """
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoTokenizer

    from grpo_recipes.worker.trainer.observed import ObservedTrainer

    path = _folder(folder, declared, pad_is_end)
    tokenizer = AutoTokenizer.from_pretrained(path)
    to_id = tokenizer.convert_tokens_to_ids
    found: dict[str, Any] = {"texts": [], "handed": []}

    def reward(completions: list[str], **columns: Any) -> list[float]:
        found["texts"] += completions
        found["handed"] += [len(ids) for ids in columns.get("completion_ids", [])]
        return [float(place) for place in range(len(completions))]

    def scored(frame: FrameType, _: Any) -> None:
        if "completion_mask" in frame.f_locals:
            ids, mask = (frame.f_locals[f"completion_{name}"].tolist() for name in ("ids", "mask"))
            found.update(_rows(tokenizer, ids, mask))
            given = frame.f_locals["inputs"]
            items = given.get("num_items_in_batch") if isinstance(given, dict) else None
            found["items"] = None if items is None else float(items)

    _dictate([to_id(row) for row in completions])
    width = {"max_completion_length": len(completions[0]), "max_steps": 1}
    trainer = ObservedTrainer(
        model=str(path),
        args=grpo_config(folder, **width, **arguments),
        train_dataset=Dataset.from_list([{"prompt": PROMPT}] * 8),
        reward_funcs=reward,
        peft_config=LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM") if lora else None,
    )
    said = _shim(trainer, shim, stop, to_id(stop_tokens))
    with watching({}, dict.fromkeys(LOSSES, scored)):
        trainer.train()
    logs = {name: value for each in trainer.state.log_history for name, value in each.items()}
    logged = {name: logs[name] for name in logs if "length" in name or "clipped_ratio" in name}
    return {**found, "said": said, "logged": logged}


def _rows(tokenizer: Any, ids: list[list[int]], mask: list[list[int]]) -> dict[str, Any]:
    trained = [tokenizer.convert_ids_to_tokens(row[: sum(ones)]) for row, ones in zip(ids, mask, strict=True)]
    rest = {token for row, ones in zip(ids, mask, strict=True) for token in row[sum(ones) :]}
    holes = sum(not all(ones[: sum(ones)]) for ones in mask)
    return {"trained": trained, "rest": tokenizer.convert_ids_to_tokens(sorted(rest)), "holes": holes}
