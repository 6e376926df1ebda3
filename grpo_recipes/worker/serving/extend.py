"""Writes the model with the new tokens of a plan in a process of its own, before server and trainer start from it.

python -m grpo_recipes.worker.serving.extend FOLDER
"""

import sys
from pathlib import Path

from grpo_recipes.worker.planned import extended_model_folder, read_plan
from grpo_recipes.worker.quiet import quiet_libraries


def main(folder: Path) -> None:
    """Writes it into a run folder, if it is not there yet."""
    plan = read_plan(folder)
    quiet_libraries()
    from grpo_recipes.worker.extended_model import write_extended_model
    from grpo_recipes.worker.shims.catalog import apply_before_trainer

    apply_before_trainer(plan)
    write_extended_model(plan, extended_model_folder(folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
