"""Experiments on image rows: a vision model written by the stack's own transformers, and its training."""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))  # support


def model(folder: Path, *, family: str) -> str:
    """The folder of an untrained model."""
    from support.seeing_models import write_seeing_model

    return str(write_seeing_model(folder / "model", family))


def trained(folder: Path, *, run_folder: str, shims: bool) -> dict[str, Any]:
    """Trains. Returns how many tokens were drawn, how many of them are image tokens, and the run.json.

    shims: whether the plan's shims are applied.
    """
    from transformers import GenerationMixin

    from grpo_recipes.worker import training
    from grpo_recipes.worker.run import train

    drawn = {"tokens": 0, "of images": 0}
    generate = GenerationMixin.generate

    def listening(model: Any, *given: Any, **named: Any) -> Any:
        answer = generate(model, *given, **named)
        new = answer[:, named["input_ids"].shape[1] :]
        drawn["tokens"] += new.numel()
        drawn["of images"] += int((new == model.config.image_token_id).sum())
        return answer

    GenerationMixin.generate = listening
    if not shims:
        training.apply_before_trainer = training.apply_on_trainer = lambda *_: {}
    exit_code = train(Path(run_folder), resume=False)
    return {"exit_code": exit_code, **drawn, "record": json.loads((Path(run_folder) / "run.json").read_text())}
