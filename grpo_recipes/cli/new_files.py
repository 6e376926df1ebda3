"""Writes new files, never over existing ones: recipes, what they need, and the schema for editors."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import click

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.files.folder_files import write_whole
from grpo_recipes.contract.secrets.redact import redact

SCHEMA = "recipe.schema.json"


def write_new(texts: Mapping[str, str]) -> None:
    """Writes new files, the last of them a recipe, each atomically, and the schema for editors.

    Raises Refusal if one exists or cannot be written.
    """
    for path in texts:
        if os.path.lexists(path):
            raise overwrite_refusal(path)
    recipe = list(texts)[-1]
    for path, text in (_missing_schema(recipe) | dict(texts)).items():
        write_one(path, text)
        after = f"; next: grpo-run validate {path}" if path == recipe else ""
        click.echo(redact(f"wrote {path}{after}"), err=True)


def _missing_schema(recipe: str) -> dict[str, str]:
    """The schema for editors by its path next to a recipe, unless the file exists. A local file also works offline."""
    from grpo_recipes.schemas.export import schema_text  # a printed recipe does not need it

    path = os.path.join(os.path.dirname(recipe), SCHEMA)
    return {} if os.path.lexists(path) else {path: schema_text("recipe")}


def write_one(path: str, text: str) -> None:
    target = Path(path).absolute()
    if os.path.lexists(target):
        raise overwrite_refusal(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target.parent, target.name, text)
    except OSError as problem:
        raise unwritable(path, problem) from problem


def unwritable(path: str, problem: OSError) -> Refusal:
    """The error with only the first reason, because copying a folder reports each of its files."""
    is_of_many = isinstance(problem, shutil.Error) and problem.args and isinstance(problem.args[0], list)
    because = problem.args[0][0][2] if is_of_many else problem.strerror or problem
    return Refusal.of(
        f"{path} cannot be written", because=str(because), fix="free some space, or use -o with a different folder"
    )


def overwrite_refusal(path: str) -> Refusal:
    stem, end = os.path.splitext(path)
    return Refusal.of(f"{path} already exists", because="init never overwrites files", fix=f"-o {stem}_new{end}")
