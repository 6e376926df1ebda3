"""Trains rows of text among rows with images, with TRL and the shim text_rows, and compares each row with it alone.

    python text_rows_experiment.py FOLDER '{"family": "idefics3", "grpo": {...}}'

Each question occurs once, so that a prompt tells its row. FOLDER has a model of the family. Each process writes what it
found into FOLDER/found-RANK.json.
"""

import json
import os
import random
import sys
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from datasets import Dataset, Features, Image, Value
from datasets import Sequence as ListOf
from transformers import AutoModelForImageTextToText, AutoProcessor
from trl import GRPOConfig

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.seeing_models import COLOURS, png, square

from grpo_recipes.worker._shared.inputs import prompt_with_images
from grpo_recipes.worker._shared.library import images_by_row
from grpo_recipes.worker.shims import text_rows
from grpo_recipes.worker.trainer.observed import ObservedTrainer

OF_TOKENS = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids")


def rows_of(counts: list[int]) -> Any:
    """Rows with so many images each, all of them different."""
    drawn, found = random.Random(1), []
    for place, count in enumerate(counts):
        images = [png(square(drawn.choice(list(COLOURS)), drawn)) for _ in range(count)]
        prompt = [{"role": "user", "content": f"what is in {'n' * (place % 4)}{place}?"}]
        found.append({"prompt": prompt, "images": [{"bytes": image, "path": None} for image in images]})
    message = {"role": Value("string"), "content": Value("string")}
    kinds = Features({"prompt": [message], "images": ListOf(Image(mode="RGB"))})
    return Dataset.from_list(found, features=kinds)


class Compared:
    """What the trainer's own passes get, compared with what the processor makes of each row alone."""

    def __init__(self, trainer: Any, rows: Any) -> None:
        self.trainer, self.processor = trainer, trainer.processing_class
        self.apart: list[float] = []
        self.old_apart: list[float] = []
        self.found = {"rows": 0, "of text": 0, "batches of text": 0, "other tokens": 0, "other pixels": 0}
        self.generated = {"rows": 0, "of text": 0, "other tokens": 0, "other pixels": 0}
        self.alone = {}
        for row in rows:
            made = self._processed(row)
            self.alone[tuple(made["input_ids"][0].tolist())] = made
        self.parts = {ids: _parts(made) for ids, made in self.alone.items()}

    def _processed(self, row: Any) -> Any:
        shown = prompt_with_images(row["prompt"], row["images"])
        how = {"add_generation_prompt": True, "tokenize": True, "return_dict": True, "return_tensors": "pt"}
        return self.processor.apply_chat_template([shown], **how)

    def generation(self, named: dict[str, Any]) -> None:
        rows = [tuple(ids[seen.bool()].tolist()) for ids, seen in zip(*map(named.get, OF_TOKENS[:2]), strict=True)]
        known = [self.parts.get(row) for row in rows]
        self.generated["rows"] += len(rows)
        self.generated["of text"] += sum(one == [] for one in known)
        self.generated["other tokens"] += known.count(None)
        self.generated["other pixels"] += [*chain(*(one or [] for one in known))] != _parts(named)

    def loss(self, model: Any, inputs: dict[str, Any]) -> None:
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
        mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
        names = ("num_images", "pixel_values", "image_grid_thw", "pixel_attention_mask", "image_sizes")
        names += ("token_type_ids", "mm_token_type_ids", "image_position_ids")
        own = {name: inputs[name] for name in names if inputs.get(name) is not None}
        width = inputs["completion_ids"].shape[1]
        with torch.no_grad():
            scored = self.trainer._get_per_token_logps_and_entropies(model, ids, mask, width, **own)[0]
        shown = images_by_row(self.trainer, inputs)
        self.found["batches of text"] += not any(map(_parts, shown))
        for place, of_row in enumerate(shown):
            prompt = tuple(inputs["prompt_ids"][place][inputs["prompt_mask"][place].bool()].tolist())
            completion = inputs["completion_ids"][place][inputs["completion_mask"][place].bool()]
            self.found["rows"] += 1
            if prompt not in self.alone:
                self.found["other tokens"] += 1
                continue
            self.found["of text"] += not self.parts[prompt]
            self.found["other pixels"] += _parts(of_row) != self.parts[prompt]
            expected = self._logps_alone(self.alone[prompt], completion)
            self.apart.append(float((scored[place][: len(completion)] - expected).abs().max()))
            if "old_per_token_logps" in inputs:
                old = inputs["old_per_token_logps"][place][: len(completion)]
                self.old_apart.append(float((old - expected).abs().max()))

    def _logps_alone(self, made: Any, completion: Any) -> Any:
        model = self.trainer.accelerator.unwrap_model(self.trainer.model)
        named = dict(made)
        for name in OF_TOKENS:
            if name in named:
                new = completion if name == "input_ids" else torch.full_like(completion, name == "attention_mask")
                named[name] = torch.cat([named[name], new[None].to(named[name].dtype)], dim=1)
        with torch.no_grad():
            logits = model(**named).logits[0, -len(completion) - 1 : -1].float()
        return logits.log_softmax(-1).gather(1, completion[:, None])[:, 0]


def _parts(named: Any) -> list[str]:
    """The images, tiles or patches that a model was called with, without those that only fill a batch."""
    pixels = named.get("pixel_values")
    if pixels is None:
        return []
    flat = pixels.reshape(-1, *pixels.shape[-3:]) if pixels.dim() > 3 else pixels
    return [part.float().numpy().tobytes().hex() for part in flat if part.any()]


def reward(completions: Any, images: Any, prompts: Any, **kwargs: Any) -> list[float]:
    for of_row, prompt in zip(images, prompts, strict=True):
        shown = [part for message in prompt for part in message["content"] if isinstance(part, dict)]
        assert len(of_row) == sum(part["type"] == "image" for part in shown), prompt
    return [float(sum(map(ord, completion[0]["content"])) % 7) for completion in completions]


def main(folder: Path, case: dict[str, Any]) -> None:
    rows = rows_of(case["images"])
    model = AutoModelForImageTextToText.from_pretrained(folder / case["family"], dtype="float32")
    common = {"output_dir": str(folder / "out"), "disable_tqdm": True, "report_to": "none", "use_cpu": True}
    # The weights do not move, so rows have the same scores in later steps as when they were generated.
    common |= {"max_steps": 4, "num_generations": 2, "max_completion_length": 5, "learning_rate": 0.0, "bf16": False}
    common |= {"gradient_checkpointing": False, "save_strategy": "no", "logging_steps": 1}
    trainer = ObservedTrainer(
        model=model,
        reward_funcs=reward,
        args=GRPOConfig(**{**common, **case["grpo"]}),
        train_dataset=rows,
        processing_class=AutoProcessor.from_pretrained(folder / case["family"], padding_side="left"),
    )
    said = text_rows.on_trainer(trainer, True, SimpleNamespace()) if case.get("shim", True) else ""  # type: ignore[arg-type]
    compared = Compared(trainer, rows)
    compute, generate = trainer.compute_loss, trainer.model.generate

    def watched(model: Any, inputs: Any, *given: Any, **named: Any) -> Any:
        compared.loss(trainer.model, inputs)
        return compute(model, inputs, *given, **named)

    def generated(**named: Any) -> Any:
        compared.generation(named)
        return generate(**named)

    trainer.compute_loss, trainer.model.generate = watched, generated
    trainer.train()
    losses = [[entry["loss"], entry["grad_norm"]] for entry in trainer.state.log_history if "loss" in entry]
    found = {"said": said, "losses": compared.found, "generations": compared.generated, "steps": losses}
    found |= {"apart": max(compared.apart, default=None), "old apart": max(compared.old_apart, default=None)}
    found["logged"] = [len(images) for images in trainer._logs["images"]]
    found["weights"] = float(sum(value.double().abs().sum() for value in trainer.model.state_dict().values()))
    (folder / f"found-{trainer.accelerator.process_index}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
    sys.stdout.flush()
    os._exit(0)  # two processes that ended at the same time sometimes aborted in a torch thread
