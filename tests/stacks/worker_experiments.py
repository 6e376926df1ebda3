"""Experiments on what the worker makes equal: the prompts of a run in order, and what the model draws for them."""

from pathlib import Path
from typing import Any


def rows_read(folder: Path, *, run_folder: str, resume: bool, shims: bool = True) -> dict[str, Any]:
    """Trains, and says which prompts the policy was asked, one after the other, as tokens without padding.

    shims: whether those of the plan are applied.
    """
    from transformers import Qwen2ForCausalLM

    from grpo_recipes.worker import training
    from grpo_recipes.worker.run import train

    prompts: list[list[int]] = []
    completions: list[list[int]] = []
    generate = Qwen2ForCausalLM.generate

    def listening(model: Any, *given: Any, **named: Any) -> Any:
        ids = given[0] if given else named["input_ids"]
        answer = generate(model, *given, **named)
        completions.extend(answer[:, ids.shape[1] :].tolist())
        for row, ones in zip(ids.tolist(), named["attention_mask"].tolist(), strict=True):
            prompt = [token for token, one in zip(row, ones, strict=True) if one]
            if not prompts or prompts[-1] != prompt:
                prompts.append(prompt)
        return answer

    Qwen2ForCausalLM.generate = listening
    if not shims:
        training.apply_before_trainer = training.apply_on_trainer = lambda *_: {}
    exit_code = train(Path(run_folder), resume=resume)
    return {"exit_code": exit_code, "prompts": prompts, "completions": completions}


def exported(folder: Path, *, run_folder: str) -> list[str]:
    """Trains and exports the merged model; gives the names of its files."""
    from grpo_recipes.worker._shared.planned import read_plan
    from grpo_recipes.worker.export import export
    from grpo_recipes.worker.run import train

    run, place, scratch = Path(run_folder), folder / "exported", folder / "scratch"
    if train(run, resume=False):
        return []
    scratch.mkdir()
    asked = export.ExportAsked(what="model", dtype=None, place=place)
    export.exported(read_plan(run), run, asked, scratch, print)
    return sorted(path.name for path in place.iterdir())
