"""Reduces a recipe to what its parent and the format's defaults do not already provide, with the same plan.

Each default value is removed by trial, since a rule can distinguish a written value from a default.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from grpo_recipes.contract.findings.finding import Path, has_errors
from grpo_recipes.contract.plan import Plan
from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.resolve.resolve import Resolution, plan_of, resolve_source
from grpo_recipes.resolve.variants.merged_recipe import merged_recipe, recipe_yaml
from grpo_recipes.schemas.recipe import Recipe
from grpo_recipes.schemas.section import Section, fields_by_key, value_of_key
from grpo_recipes.yaml.compose import Source, compose, parent_of
from grpo_recipes.yaml.merge import EXTEND

NOTHING = object()
Values = dict[str, Any]


def minimal_recipe_text(resolution: Resolution) -> str:
    """The smallest recipe in the same place that gives the same plan, as YAML.

    Paths from other files become absolute. Raises ValueError for a recipe with errors.
    """
    if resolution.context is None or resolution.refused:
        raise ValueError("a recipe with errors has no plan")
    difference = _Difference.of(resolution.context.source)
    plan = plan_of(resolution)
    text = difference.text()
    if _gives(text, plan, resolution):
        return text
    needed = {path for path in difference.left_to_format if not _gives(difference.text({path}), plan, resolution)}
    unneeded = difference.left_to_format - needed
    text = difference.text(unneeded)
    return text if _gives(text, plan, resolution) else difference.text(frozenset())


def _gives(text: str, plan: Plan, resolution: Resolution) -> bool:
    """Whether the text gives the plan when it replaces the recipe."""
    assert resolution.context is not None
    source, findings = compose(resolution.file, content=text)
    if source is None or has_errors(findings):
        return False
    again = resolve_source(source, resolution.context.stack)
    again = again._replace(accepted=resolution.accepted)
    return not again.refused and _essence(plan_of(again)) == _essence(plan)


def _essence(plan: Plan) -> Plan:
    """The plan without the places where its values were written."""
    rows = [
        dataclasses.replace(row, origin="", why="")
        for row in plan.settings
        if row.value not in (None, "", "auto", [], {})
    ]
    return dataclasses.replace(plan, recipe={}, settings=tuple(sorted(rows, key=lambda row: row.key)), findings=())


@dataclass(frozen=True, slots=True)
class _Difference:
    """What a recipe adds to its parent. left_to_format: paths whose value is the format's default."""

    extends: str
    written: Values
    left_to_format: frozenset[Path]

    @classmethod
    def of(cls, source: Source) -> "_Difference":
        """The difference between a recipe and its parents; paths are compared by their target."""
        shown = _as_written(source)
        extended = parent_of(source)
        if extended is None:
            return cls("", shown, frozenset(_of_the_format(shown, source.values)))
        extends, parent = extended
        written = _beside(merged_recipe(source), merged_recipe(parent), shown)
        own = (path for path in _of_the_format(written, source.values) if path not in parent.marks)
        return cls(extends, written, frozenset(own))

    def text(self, left_out: Iterable[Path] | None = None) -> str:
        """The recipe without these paths, by default all that equal the format's."""
        paths = self.left_to_format if left_out is None else frozenset(left_out)
        values = _without(self.written, paths, ())
        return recipe_yaml({**({"extends": self.extends} if self.extends else {}), **values})


def _as_written(source: Source) -> Values:
    """The merged values, with paths from the recipe's own file as written, and those from others absolute."""
    whole, own = merged_recipe(source), source.directory(())

    def keep_spelling(value: Any, written: Any, path: Path) -> Any:
        if isinstance(value, dict):
            return {key: keep_spelling(item, written[key], (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [keep_spelling(item, written[index], (*path, index)) for index, item in enumerate(value)]
        return written if source.directory(path) == own else value

    result: Values = keep_spelling(whole, source.values, ())
    return result


def _beside(values: Values, parent: Values, shown: Values) -> Values:
    """The values that differ from the parent, in display form: null for removed keys, extend for added items."""
    differing: Values = {}
    for key, value in values.items():
        old = parent.get(key, NOTHING)
        if isinstance(value, dict) and isinstance(old, dict):
            below = _beside(value, old, shown[key])
            differing |= {key: below} if below else {}
        elif old is NOTHING or not _same(value, old):
            differing[key] = _item(value, old, shown[key])
    return differing | {key: None for key, old in parent.items() if key not in values and old is not None}


def _item(value: object, old: object, shown: Any) -> object:
    """A value that differs; for a list that continues the parent's, only the added part."""
    if not (isinstance(value, list) and isinstance(old, list) and 0 < len(old) < len(value)):
        return shown
    return {EXTEND: shown[len(old) :]} if all(map(_same, value, old)) else shown


def _same(value: object, other: object) -> bool:
    """Whether two values and their types are equal: 1 is neither true nor 1.0."""
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(_same(value[key], other[key]) for key in value)
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(_same, value, other))
    return type(value) is type(other) and value == other


def _of_the_format(written: Mapping[str, Any], values: Mapping[str, Any]) -> Iterable[Path]:
    """The paths below which a recipe writes only the format's defaults."""
    recipe = Recipe.model_validate(values)
    for name, value in written.items():
        default = Recipe.model_fields[name].get_default(call_default_factory=True)
        section = getattr(recipe, name)
        if value == {} and not _is_optional((name,)):
            yield (name,)
        elif isinstance(section, BaseModel) and isinstance(value, dict):
            yield from ((name, key) for key in value if _is_default(section, key))
        elif name == "trl" and isinstance(value, dict):
            fields = classified_fields()
            yield from (
                (name, key)
                for key, field_value in value.items()
                if key in fields and fields[key].has_value and _same(field_value, fields[key].value)
            )
        elif name in ("datasets", "rewards", "tools") and value is not None:
            yield from _of_items(name, value, section)
        elif _same(section, default):
            yield (name,)


def _of_items(name: str, value: Any, sections: Sequence[Section]) -> Iterable[Path]:
    """The paths of written rewards or tools that equal the format's defaults. The written ones are the last."""
    prefix: Path = (name, EXTEND) if isinstance(value, dict) else (name,)
    items = value[EXTEND] if isinstance(value, dict) else value
    if not items:
        yield (name,)
    for index, (item, section) in enumerate(zip(items, sections[len(sections) - len(items) :], strict=True)):
        yield from ((*prefix, index, key) for key in item if _is_default(section, key))


def _is_default(section: BaseModel, key: str) -> bool:
    known = fields_by_key(type(section)).get(key)
    return known is not None and _same(value_of_key(section, key), known.get_default(call_default_factory=True))


def _without(value: Any, paths: frozenset[Path], path: Path) -> Any:
    """A copy without these paths and without maps that become empty; adapters and the like stay, empty."""
    if isinstance(value, list):
        return [_without(item, paths, (*path, index)) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    left: Values = {}
    for key, item in value.items():
        below = (*path, key)
        if below in paths:
            continue
        shortened = _without(item, paths, below)
        if shortened == {} != item and not _is_optional(below):
            continue
        left[key] = shortened
    return left


def _is_optional(path: Path) -> bool:
    """Whether the mere presence of a section has a meaning."""
    return len(path) == 1 and Recipe.model_fields[str(path[0])].default is None
