"""Writes the model with the new tokens of a plan in a process of its own, before server and trainer start from it.

python -P worker/part.py extend FOLDER
"""

from collections.abc import Sequence
from pathlib import Path

from grpo_recipes.worker._shared.planned import extended_model_folder, read_plan, trust_remote_code
from grpo_recipes.worker._shared.quiet import quiet_libraries


def main(arguments: Sequence[str]) -> None:
    """Writes it into a run folder, if it is not there yet."""
    folder = Path(arguments[0])
    plan = read_plan(folder)
    quiet_libraries()
    from grpo_recipes.worker.shims.catalog import apply_before_trainer
    from grpo_recipes.worker.trainer.extended_model import write_extended_model
    from grpo_recipes.worker.user_code.planned_code import run_only_planned_code

    if trust_remote_code(plan):
        run_only_planned_code(plan)
    apply_before_trainer(plan)
    write_extended_model(plan, extended_model_folder(folder))
