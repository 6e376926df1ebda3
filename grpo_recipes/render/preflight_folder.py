"""The folder of a preflight: that of a run, whose launch.sh looks at everything and trains nothing."""

import json
from collections.abc import Mapping
from pathlib import Path

from grpo_recipes.contract.plan import Plan
from grpo_recipes.render.launch_script import exported
from grpo_recipes.render.run_folder import write_run_folder
from grpo_recipes.render.template import fill


def write_preflight_folder(plan: Plan, folder: str, recipe_text: str, options: Mapping[str, object]) -> str:
    """Writes it and returns its absolute path. Raises Refusal as write_run_folder does."""
    written = Path(write_run_folder(plan, folder, recipe_text))
    (written / "preflight.json").write_text(json.dumps(options), encoding="utf-8")
    script = fill("preflight.sh.j2", name=" ".join(plan.name.split()), environment=exported(plan))
    (written / "launch.sh").write_text(script, encoding="utf-8", newline="\n")
    return str(written)
