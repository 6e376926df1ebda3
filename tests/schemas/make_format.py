"""Generates format.json from the models: `python tests/schemas/make_format.py`, called by `make schemas`."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from grpo_recipes.schemas.fast_accept import TABLE
from grpo_recipes.schemas.models import section_model, sections
from grpo_recipes.schemas.recipe import Recipe
from grpo_recipes.schemas.section import fields_by_key, is_required_key

# What grpo_recipes/schemas/fast_accept.py reads.
KEYWORDS = frozenset(
    (
        "$ref",
        "additionalProperties",
        "anyOf",
        "const",
        "default",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "items",
        "maxItems",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "pattern",
        "properties",
        "required",
        "type",
    )
)
SAID_TO_PEOPLE = ("description", "examples", "title")


def format_text() -> str:
    """The text of format.json. Raises ValueError for a model that the table cannot express."""
    schema = Recipe.model_json_schema()
    forms = {Recipe.__name__: schema} | schema.pop("$defs")
    models = {model.__name__: model for model in sections().values()}
    for name, form in forms.items():
        refuse_what_cannot_be_said(models[name])
        said = [key for key, field in fields_by_key(models[name]).items() if is_required_key(field)]
        form["required"] = sorted({*form.get("required", ()), *said})
    named = {section: model.__name__ for section, model in sections().items()}
    table = {"sections": named, "forms": {name: _section_form(forms[name]) for name in dict.fromkeys(named.values())}}
    return json.dumps(table, indent=1) + "\n"


def refuse_what_cannot_be_said(model: type[BaseModel]) -> None:
    """A required key is never accepted when it is null, so a validator that only judges null is allowed."""
    decorators = model.__pydantic_decorators__
    model.model_rebuild()
    unknown = {*_functions(model.__pydantic_core_schema__)} - {
        name for one in sections().values() for name in one.__pydantic_decorators__.field_validators
    }
    validated = {field for one in decorators.field_validators.values() for field in one.info.fields}
    others = [name for name in validated if not is_required_key(model.model_fields[name])]
    if unknown or others or decorators.model_validators or decorators.root_validators or decorators.validators:
        raise ValueError(f"{model.__name__}: format.json cannot express a validator; use a rule")
    for name, field in model.model_fields.items():
        section = section_model(field.annotation)
        default = field.get_default(call_default_factory=True)
        if isinstance(default, BaseModel) and (section is None or default != section.model_construct()):
            raise ValueError(f"{model.__name__}.{name}: the default of a section is that of its keys")


def _section_form(form: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in form.items() if key not in (*SAID_TO_PEOPLE, "properties", "type")}
    properties = {name: form_of(one) for name, one in form["properties"].items()}
    for name, one in properties.items():
        if name not in form["required"] and "default" not in one and "$ref" not in one:
            raise ValueError(f"{name}: a default that is not in the JSON Schema of its model")
    _refuse_unknown_words(kept)
    return {**kept, "properties": properties}


def form_of(form: Any) -> Any:
    """A form without texts for people; a section's form has its own defaults."""
    if isinstance(form, list):
        return [form_of(one) for one in form]
    if not isinstance(form, dict):
        return form
    kept = {key: value for key, value in form.items() if key not in SAID_TO_PEOPLE}
    if "$ref" in kept:
        return {"$ref": kept["$ref"].rpartition("/")[2]}
    _refuse_unknown_words(kept)
    return {key: value if key in ("default", "enum", "const") else form_of(value) for key, value in kept.items()}


def _refuse_unknown_words(form: Mapping[str, Any]) -> None:
    for word in form.keys() - KEYWORDS:
        raise ValueError(f"grpo_recipes/schemas/fast_accept.py does not understand the JSON Schema keyword {word}")


def _functions(schema: object) -> Iterator[str]:
    """The names of the functions in a core schema of Pydantic: validators, also those in annotations."""
    if isinstance(schema, Mapping):
        if str(schema.get("type", "")).startswith("function-"):
            yield getattr(schema["function"]["function"], "__name__", "")
        for value in schema.values():
            yield from _functions(value)
    elif isinstance(schema, list | tuple):
        for value in schema:
            yield from _functions(value)


if __name__ == "__main__":
    TABLE.write_text(format_text(), encoding="utf-8")
