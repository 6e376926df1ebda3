"""Lists the recipes that come with grpo-run: their purpose, from the head comment, and the files they need."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.findings.finding import Path as PathOfKey
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.resolve.variants.merged_recipe import recipe_yaml
from grpo_recipes.schemas.recipe import Recipe
from grpo_recipes.takeover.smollm2_recipe import NAME as BUILT
from grpo_recipes.takeover.smollm2_recipe import ListedRecipe
from grpo_recipes.user_files.local_files import local_path
from grpo_recipes.user_files.reward_imports import names_module
from grpo_recipes.yaml.compose import Source, compose
from grpo_recipes.yaml.parents import CATALOGUE, PREFIX, shipped_files

_FACTS = re.compile(r"# Task: (.+)\. Size: (\S+)\. Hardware: (\S+)\. State: (run here|not run)\.")
_SCHEMA = re.compile(r"# yaml-language-server: \$schema=.*")


@dataclass(frozen=True, slots=True)
class Shipped(ListedRecipe):
    """A recipe of a file. beside: files and folders that it needs, by their paths below its folder."""

    file: Path
    beside: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """The folder of the recipe."""
        return self.file.parent

    @property
    def is_whole(self) -> bool:
        """Whether the recipe is written as one file: the bases of the catalogue are useless alone."""
        return self.folder.name == CATALOGUE


def shipped_recipes() -> tuple[Shipped, ...]:
    """All shipped recipes, the catalogue's last. Raises Refusal if they are not installed."""
    return tuple(_read_shipped(path) for path in _files_by_name().values())


def shipped_recipe(name: str) -> Shipped:
    """The shipped recipe of a name. Raises Refusal for an unknown one."""
    known = _files_by_name()
    wanted = name.removesuffix(".yaml")
    if wanted in known:
        return _read_shipped(known[wanted])
    near = nearest_words(wanted, (*known, BUILT), cutoff=0.5)
    fix = f"grpo-run init {near[0]}" if near else "grpo-run init --list"
    raise Refusal.of(f"no shipped recipe is named {name}", because=f"there are {len(known) + 1} of them", fix=fix)


def whole_text(shipped: Shipped) -> str:
    """A recipe of the catalogue without `extends`: its head, and its values merged with those of its bases."""
    head = [line for line in _head(shipped.file) if not _SCHEMA.fullmatch(line)]
    source = _source(shipped.file)
    values = {key: source.values[key] for key in Recipe.model_fields if key in source.values}
    written = (
        f"# Written by grpo-run init from {PREFIX}{shipped.name}, which builds on {len(source.files) - 1} other files."
    )
    return "\n".join([*head, written, recipe_yaml(values)])


def _files_by_name() -> dict[str, Path]:
    files = shipped_files()
    if not files:
        raise Refusal.of("the shipped recipes are not installed", fix="install the package grpo-recipes from its wheel")
    return files


def _read_shipped(path: Path) -> Shipped:
    source = _source(path)
    parents = [Path(file).name for file in source.files if Path(file).name != path.name]
    facts = next((match for line in _head(path) if (match := _FACTS.fullmatch(line))), None)
    task, size, hardware, state = ("", "", "", "") if facts is None else facts.groups()
    return Shipped(
        name=path.stem,
        description=str(source.values.get("description", "")),
        file=path,
        beside=(*(() if path.parent.name == CATALOGUE else parents), *sorted(_local_files(source, path.parent))),
        task=task,
        size=size,
        method="QLoRA" if "quantization" in source.values else "LoRA" if "lora" in source.values else "full",
        hardware=hardware,
        state=state,
    )


def _source(path: Path) -> Source:
    source, findings = compose(str(path))
    if source is None:
        raise Refusal.of(f"{path}: {findings[0].message}")
    return source


def _head(path: Path) -> list[str]:
    """The lines of the comment at the top of a recipe."""
    return path.read_text(encoding="utf-8").partition("\nrecipe:")[0].partition("\nextends:")[0].splitlines()


def _local_files(source: Source, folder: Path) -> set[str]:
    files = set()
    for section, key in (("model", "model_name_or_path"), ("dataset", "path"), ("evaluation", "path")):
        block = source.values.get(section)
        value = block.get(key) if isinstance(block, dict) else None
        local = local_path(value, str(folder)) if isinstance(value, str) else None
        if local is not None:
            files.add(str(Path(local).relative_to(folder)))
    for path, entry in _naming_code(source):
        python = str(entry.get("python") or "") if isinstance(entry, dict) else ""
        file = python.rpartition(":")[0]
        if file and not names_module(python):
            files.add(os.path.relpath(os.path.join(source.directory((*path, "python")), file), folder.resolve()))
    return files


def _naming_code(source: Source) -> Iterator[tuple[PathOfKey, object]]:
    """The values of a recipe that may name a file of user code, with their paths."""
    for section in ("rewards", "tools", "environments"):
        entries = source.values.get(section)
        yield from (((section, index), part) for index, part in enumerate(entries if isinstance(entries, list) else ()))
    yield from (((section,), source.values.get(section)) for section in ("environment", "rollout"))
