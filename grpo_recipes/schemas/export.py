"""JSON Schemas of the recipe, the plan and what the commands print, for editors and other programs."""

import ast
import inspect
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter

from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.run_record import RunRecord
from grpo_recipes.facts.classified import fields_by_home
from grpo_recipes.rewards.catalog import shipped_rewards
from grpo_recipes.schemas.models import sections
from grpo_recipes.schemas.recipe import Recipe
from grpo_recipes.schemas.released_values import AUTO, trl_properties, values_of_all_releases
from grpo_recipes.schemas.section import Section

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def field_docs(model: type[BaseModel]) -> dict[str, str]:
    """The string under each field of a model, on one line."""
    parent = model.__mro__[1]
    docs = field_docs(parent) if issubclass(parent, Section) and parent.model_fields else {}
    tree = ast.parse(inspect.getsource(model))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    for field, text in itertools.pairwise(body):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            docs[field.target.id.rstrip("_")] = " ".join(str(text.value.value).split())
    return docs


def recipe_schema() -> dict[str, Any]:
    """The schema of a recipe file; hover texts are the strings under the fields, with their defaults."""
    schema = Recipe.model_json_schema()
    for section, model in sections().items():
        target = schema if model is Recipe else schema["$defs"].get(model.__name__)
        docs = field_docs(model)
        for name, field in target["properties"].items():
            described = _describe(_with_known_values(field, f"{section}.{name}"), docs.get(name))
            target["properties"][name] = _extendable(described)
    schema["$defs"]["RewardSection"]["properties"]["name"] |= _names_of_rewards()
    # The reader of YAML makes texts of them.
    variables = schema["$defs"]["LaunchSection"]["properties"]["environment"]
    variables["additionalProperties"] = {"type": ["string", "number", "boolean"]}
    fields = {name: _extendable(field) for name, field in trl_properties().items()}
    schema["properties"]["trl"]["properties"] = fields
    return {"$schema": DIALECT, **_require_unless_extended(schema)}


def _describe(field: dict[str, Any], text: str | None) -> dict[str, Any]:
    """The field with its meaning and default as an editor shows them; a section has its own default."""
    if text is None:
        return field
    default = field.get("default")
    shown = "" if default in ("", {}, []) or "default" not in field else f" Default: {json.dumps(default)}."
    return {**field, "description": f"{text}{shown}"}


def _with_known_values(field: dict[str, Any], key: str) -> dict[str, Any]:
    """A text field with TRL's own values accepts those of all known releases, and auto if a rule decides it."""
    classified = fields_by_home().get(key)
    values = None if classified is None else values_of_all_releases("GRPOConfig", classified.name)
    if values is None:
        return field
    annotations = {name: value for name, value in field.items() if name in ("title", "default", "description")}
    more = [value for value in (field.get("default"),) if value not in (*values, "auto")]
    return {**annotations, "anyOf": [{"enum": [*values, *more]}, AUTO]}


def _names_of_rewards() -> dict[str, Any]:
    rewards = shipped_rewards()
    meanings = [reward.doc for reward in rewards.values()]
    return {"anyOf": [{"enum": list(rewards), "enumDescriptions": meanings}, {"type": "null"}]}


def _extendable(field: dict[str, Any]) -> dict[str, Any]:
    """A field that takes a list also takes `{extend: [...]}`, which adds to the parent's."""
    branches = field.get("anyOf", [field])
    lists = [branch for branch in branches if branch.get("type") == "array"]
    if not lists:
        return field
    outer = {key: value for key, value in field.items() if key in ("title", "description", "default")}
    items = [{key: value for key, value in branch.items() if key not in outer} for branch in branches]
    extension = {
        "type": "object",
        "properties": {"extend": {key: value for key, value in lists[0].items() if key not in outer}},
        "required": ["extend"],
        "additionalProperties": False,
    }
    return {"anyOf": [*items, extension], **outer}


def _require_unless_extended(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema that requires keys only without `extends`: a child may leave them to its parent."""
    sections_of = {
        name: field["$ref"].rpartition("/")[2] for name, field in schema["properties"].items() if "$ref" in field
    }
    whole: dict[str, Any] = {"required": schema.pop("required"), "properties": {}}
    for name, model in sections_of.items():
        required = schema["$defs"][model].pop("required", None)
        if required:
            whole["properties"][name] = {"required": required}
    either = [{"required": [key]} for key in ("model_name_or_path", "from_run")]
    whole["properties"]["model"] = {"anyOf": either}
    return {**schema, "if": {"required": ["extends"]}, "else": whole}


def plan_schema() -> dict[str, Any]:
    """The schema of plan.json."""
    return {"$schema": DIALECT, **TypeAdapter(Plan).json_schema(mode="serialization")}


def run_schema() -> dict[str, Any]:
    """The schema of run.json; `run_id` is the id of its run folder, `seal` the digest of the rest."""
    schema = TypeAdapter(RunRecord).json_schema(mode="serialization")
    schema["properties"]["run_id"] = {"type": "string"}
    schema["properties"]["seal"] = {"type": "object"}
    return {"$schema": DIALECT, **schema, "additionalProperties": False}


SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {"recipe": recipe_schema, "plan": plan_schema, "run": run_schema}
"""Schemas made from classes; those of command output are files next to this one."""
PRINTED = ("findings", "diff", "doctor")


def schema_text(name: str) -> str:
    """One schema as the text of its file under schemas/."""
    if name in PRINTED:
        return Path(__file__).with_name(f"{name}.schema.json").read_text(encoding="utf-8")
    return json.dumps(SCHEMAS[name](), indent=2, ensure_ascii=False) + "\n"
