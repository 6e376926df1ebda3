"""Experiments on what the worker makes equal: the prompts of a run in order, and what the model draws for them."""

from pathlib import Path
from typing import Any


def rows_read(folder: Path, *, run_folder: str, resume: bool) -> dict[str, Any]:
    """Trains. Returns the prompts of the policy, one after the other, as tokens without padding, and its completions.

    checkpoints: whether the policy checkpoints its layers at the end.
    """
    from transformers import Qwen2ForCausalLM

    from grpo_recipes.worker.run import train

    prompts: list[list[int]] = []
    completions: list[list[int]] = []
    policies: list[Any] = []
    generate = Qwen2ForCausalLM.generate

    def listening(model: Any, *given: Any, **named: Any) -> Any:
        policies[:] = [model]
        ids = given[0] if given else named["input_ids"]
        answer = generate(model, *given, **named)
        completions.extend(answer[:, ids.shape[1] :].tolist())
        for row, ones in zip(ids.tolist(), named["attention_mask"].tolist(), strict=True):
            prompt = [token for token, one in zip(row, ones, strict=True) if one]
            if not prompts or prompts[-1] != prompt:
                prompts.append(prompt)
        return answer

    Qwen2ForCausalLM.generate = listening
    exit_code = train(Path(run_folder), resume=resume)
    checkpoints = any(getattr(module, "gradient_checkpointing", False) for module in policies[0].modules())
    return {"exit_code": exit_code, "prompts": prompts, "completions": completions, "checkpoints": checkpoints}


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
    export.write_export(read_plan(run), run, asked, scratch, print)
    return sorted(path.name for path in place.iterdir())
