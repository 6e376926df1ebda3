"""Writes a run folder's models before server and trainer start.

They are the model with new tokens, merged with an adapter, or dequantized for vLLM.

    python -P worker/part.py extend FOLDER
"""

from collections.abc import Sequence
from pathlib import Path

from grpo_recipes.worker._shared.imports import keep_imports, quiet_libraries
from grpo_recipes.worker._shared.planned import read_plan, trust_remote_code


def main(arguments: Sequence[str]) -> None:
    """Writes the models into a run folder, unless they exist."""
    folder = Path(arguments[0])
    plan = read_plan(folder)
    with keep_imports():
        quiet_libraries()
        from grpo_recipes.worker.model.written_models import write_models
        from grpo_recipes.worker.shims.catalog import apply_before_trainer
        from grpo_recipes.worker.user_code.model_code import run_only_planned_code

    if trust_remote_code(plan):
        run_only_planned_code(plan)
    apply_before_trainer(plan)
    write_models(plan, folder)
