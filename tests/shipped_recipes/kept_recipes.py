"""What format 1 makes of the recipes that were shipped; as a program it adds what is new to the records."""

import json
import re
import shutil
from pathlib import Path

from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.resolve.resolve import plan_of, resolve
from grpo_recipes.schemas.models import sections
from grpo_recipes.schemas.recipe import Recipe
from grpo_recipes.schemas.section import fields_by_key, is_required_key
from grpo_recipes.stack.stack import Stack
from grpo_recipes.stack.target import parse_target

FORMAT = 1
FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
STACK = "tested,vllm==0.30.0"
MACHINES = {
    "calculator": "gpus=0",
    "colours": "gpus=0",
    "guess": "gpus=0",
    "quickstart": "gpus=0",
    "quickstart_qlora": "gpus=0",
    "qwen2_5_7b_zero3": "gpus=8xH100-80GB",
    "qwen2_5_7b_two_nodes": "gpus=8xH100-80GB",
    "qwen3_alphabet_sort": "gpus=1xH100-80GB",
}
LISTS = ("rewards", "tools")
BY_CONTENT = ("dataset.path", "model.model_name_or_path", "name", "description")


def shipped() -> list[Path]:
    """The recipes that were kept, oldest first."""
    folders = sorted(FOLDER.glob("[0-9]*-*"), key=lambda folder: int(folder.name.partition("-")[0]))
    return [path for folder in folders for path in sorted(folder.glob("*.yaml"))]


def target(name: str) -> Stack:
    """The stack of their time, on the machine that a recipe is for."""
    stack, findings = parse_target(f"{STACK},{MACHINES.get(name, 'gpus=1xA100-40GB')}")
    assert stack is not None, findings
    return stack


def laid_out(recipe: Path, folder: Path) -> str:
    """The recipe's place in a folder that has what stood beside it when it was shipped."""
    for beside in ("calculator", "colours", "guess", "quickstart", "qwen3_alphabet_sort", "qwen3_python_tool"):
        (folder / beside).symlink_to(ROOT / "recipes" / beside)
    for path in shipped():
        shutil.copyfile(path, folder / path.name)
        if path == recipe:
            break
    return str(folder / recipe.name)


def experiment(recipe: Path, folder: Path) -> dict[str, object]:
    """The values that define the experiment, by the keys that a user writes."""
    plan = plan_of(resolve(laid_out(recipe, folder), target(recipe.stem)))
    rows = {row.recipe_key or row.key: row.value for row in plan.settings if row.kind == "experiment"}
    return {key: value for key, value in sorted(rows.items()) if key not in BY_CONTENT and not _is_geometry(key)}


def _is_geometry(key: str) -> bool:
    return re.fullmatch(r"GRPOConfig\.(steps_per_generation|generation_batch_size)", key) is not None


def defaults() -> dict[str, object]:
    """The value of every key of the format where a recipe says nothing; "required" where it has to."""
    found: dict[str, object] = {}
    for section, model in sections().items():
        for name, field in fields_by_key(model).items():
            key = f"{section}.{name}" if section else name
            value = "required" if is_required_key(field) else field.get_default(call_default_factory=True)
            found[key] = "section" if section == "" and name in sections() and name not in LISTS else value
    assert Recipe.model_fields.keys() <= found.keys()
    found |= {f"trl.{name}": field.value for name, field in classified_fields().items() if field.has_value}
    return dict(sorted(json.loads(json.dumps(found)).items()))


def main() -> None:
    """Adds what the records lack; what they have stays."""
    import tempfile

    for name, now in (
        ("format_1.json", defaults()),
        ("experiments.json", {str(p.relative_to(FOLDER)): p for p in shipped()}),
    ):
        place = FOLDER / name
        then = json.loads(place.read_text()) if place.exists() else {}
        for key, value in now.items():
            if key in then:
                continue
            with tempfile.TemporaryDirectory() as folder:
                then[key] = experiment(value, Path(folder)) if isinstance(value, Path) else value
        place.write_text(json.dumps(then, indent=1) + "\n")


if __name__ == "__main__":
    main()
