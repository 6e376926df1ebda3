"""The temporary folder in which a part of the installed worker does something with a run folder."""

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from grpo_recipes.contract.files.part_files import write_request
from grpo_recipes.contract.plan import Plan
from grpo_recipes.render.launch_script import exported
from grpo_recipes.render.run_folder import write_run_folder
from grpo_recipes.render.template import fill


def write_part_folder(plan: Plan, folder: str, part: str, request: Mapping[str, object]) -> None:
    """Writes launch.sh, which runs the part with the environment of the plan, and what is asked for.

    The part is that of the installed package: the worker in the run folder may be of an older release that has none.
    Raises Refusal for an environment variable that a recipe may not set.
    """
    here = Path(folder)
    program = Path(str(files("grpo_recipes"))) / "worker" / "part.py"
    script = fill("part.sh.j2", part=part, program=str(program), environment=exported(plan))
    write_request(here, request)
    (here / "launch.sh").write_text(script, encoding="utf-8", newline="\n")


def write_preflight_folder(plan: Plan, folder: str, recipe_text: str, options: Mapping[str, object]) -> str:
    """Writes it and returns its absolute path. Raises Refusal as write_run_folder does."""
    written = Path(write_run_folder(plan, folder, recipe_text))
    (written / "preflight.json").write_text(json.dumps(options), encoding="utf-8")
    script = fill("preflight.sh.j2", name=" ".join(plan.name.split()), environment=exported(plan))
    (written / "launch.sh").write_text(script, encoding="utf-8", newline="\n")
    return str(written)
