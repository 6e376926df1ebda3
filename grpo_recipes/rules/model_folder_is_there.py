"""A local model is a folder with a config.json.

A path that does not exist is taken for a hub id by transformers, and the error speaks of the hub.
"""

import os
from collections.abc import Iterator

from grpo_recipes.facts.local_files import local_path
from grpo_recipes.finding import Finding
from grpo_recipes.rules.context import Context

ID = "MDL001"
KEY = "model.model_name_or_path"


def check(context: Context) -> Iterator[Finding]:
    value = context.text(KEY)
    path = local_path(value, context.source.directory(("model", "model_name_or_path")))
    if path is None:
        yield from _hub_id(context, value)
    elif not os.path.isdir(path):
        yield context.finding(ID, f"there is no folder {value}", KEY, because=[f"looked for {path}"])
    elif not os.path.isfile(os.path.join(path, "config.json")):
        yield context.finding(ID, f"{value} is no model folder", KEY, because=[f"{path} has no config.json"])


def _hub_id(context: Context, value: str) -> Iterator[Finding]:
    if value.count("/") > 1 or not all(part and part.strip() == part for part in value.split("/")):
        yield context.finding(
            ID,
            f"{value} is neither a folder nor a hub id",
            KEY,
            because=["a hub id is name or owner/name", "no such folder stands beside the recipe"],
            fix=f"./{value} for a folder",
        )
