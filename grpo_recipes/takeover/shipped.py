"""The recipes that come with grpo-run, with what they need beside them."""

from dataclasses import dataclass
from pathlib import Path

from grpo_recipes.errors import Refusal
from grpo_recipes.nearest import nearest_words
from grpo_recipes.user_files.local_files import local_path
from grpo_recipes.yaml.compose import compose
from grpo_recipes.yaml.shipped import shipped_files


@dataclass(frozen=True, slots=True)
class Shipped:
    """One recipe. beside: files and folders that it needs, by their paths below `folder`."""

    name: str
    description: str
    folder: Path
    beside: tuple[str, ...]

    @property
    def file(self) -> Path:
        """The recipe itself."""
        return self.folder / f"{self.name}.yaml"


def shipped_recipes() -> tuple[Shipped, ...]:
    """All shipped recipes, by name. Raises Refusal where they are not installed."""
    found = shipped_files()
    if not found:
        raise Refusal.of("the shipped recipes are not installed", fix="install the package grpo-recipes from its wheel")
    return tuple(_shipped(path) for path in found.values())


def shipped_recipe(name: str) -> Shipped:
    """The shipped recipe of a name. Raises Refusal where none has it."""
    known = {one.name: one for one in shipped_recipes()}
    wanted = name.removesuffix(".yaml")
    if wanted in known:
        return known[wanted]
    near = nearest_words(wanted, known, cutoff=0.5)
    fix = f"grpo-run init {near[0]}" if near else "grpo-run init --list"
    raise Refusal.of(f"no shipped recipe is named {name}", because=f"there are {', '.join(known)}", fix=fix)


def _shipped(path: Path) -> Shipped:
    source, findings = compose(str(path))
    if source is None:
        raise Refusal.of(f"{path}: {findings[0].message}")
    parents = [Path(file).name for file in source.files if Path(file).name != path.name]
    local: set[str] = set()
    for section, key in (("model", "model_name_or_path"), ("dataset", "path"), ("evaluation", "path")):
        block = source.values.get(section)
        value = block.get(key) if isinstance(block, dict) else None
        found = local_path(value, str(path.parent)) if isinstance(value, str) else None
        if found is not None:
            local.add(str(Path(found).relative_to(path.parent)))
    return Shipped(path.stem, str(source.values.get("description", "")), path.parent, (*parents, *sorted(local)))
