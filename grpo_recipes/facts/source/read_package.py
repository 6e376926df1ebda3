"""Reads the facts of a release from its source; nothing is imported."""

import ast
from collections.abc import Mapping, Sequence

from grpo_recipes.facts.source import closed_sets
from grpo_recipes.facts.source.field import Field, NoDefault
from grpo_recipes.facts.source.package_facts import METHODS, MODULES, NOT_IN_ALL_RELEASES, OwnerFacts, PackageFacts
from grpo_recipes.facts.source.package_source import ClassSource, PackageSource
from grpo_recipes.facts.source.read import dataclass_fields, method_fields, outside_bases, struct_fields

Allowed = Mapping[str, tuple[object, ...]]


def read_package(source: PackageSource, version: str) -> PackageFacts | None:
    """The facts of an installed package, None when one of its classes is not where this reader knows it."""
    found = {owner: _find(source, owner, modules) for owner, modules in MODULES[source.package].items()}
    classes = {owner: one for owner, one in found.items() if one is not None}
    if set(found) - set(classes) - NOT_IN_ALL_RELEASES:
        return None
    owners = {owner: _read_owner(source, owner, classes) for owner in classes}
    return PackageFacts(source.package, version, owners)


def _find(source: PackageSource, owner: str, modules: Sequence[str]) -> ClassSource | None:
    return next((one for module in modules if (one := source.find_class(module, owner)) is not None), None)


def _read_owner(source: PackageSource, owner: str, classes: Mapping[str, ClassSource]) -> OwnerFacts:
    found = classes[owner]
    if owner in METHODS:
        return OwnerFacts((), method_fields(found.node, METHODS[owner]))
    if owner == "BitsAndBytesConfig":
        fields = method_fields(found.node)
        names = {name: name for name in fields}
        closed = closed_sets.values_by_refusal(found.node, names)
        # transformers takes any string here; bitsandbytes refuses what this class does not compare it with.
        compared = closed_sets.values_by_comparison(found.node, "self.bnb_4bit_quant_type")
        return OwnerFacts((), _with_allowed(fields, {**closed, "bnb_4bit_quant_type": compared}))
    if owner == "SamplingParams":
        return OwnerFacts((), struct_fields(found.node))
    fields = dataclass_fields(source, found)
    closed = closed_sets.values_by_conversion(source, found)
    if owner == "GRPOConfig":
        closed |= _refused_by_trainer(source, found.node, classes["GRPOTrainer"], fields)
    return OwnerFacts(outside_bases(source, found), _with_allowed(fields, closed))


def _refused_by_trainer(
    source: PackageSource, config: ast.ClassDef, trainer: ClassSource, fields: Mapping[str, Field]
) -> dict[str, tuple[object, ...]]:
    """The closed sets of GRPOConfig's fields.

    GRPOConfig itself takes anything; the trainer refuses late: vllm_mode when it starts the engine, loss_type
    and importance_sampling_level in the first loss, scale_rewards after the first generation.
    """
    in_config = {f"self.{name}": name for name in fields}
    in_trainer = {f"{owner}.{name}": name for name in fields for owner in ("args", "self.args")}
    in_trainer |= _attributes_set_from(trainer.node, in_trainer)
    closed = closed_sets.values_by_refusal(config, in_config)
    closed |= closed_sets.values_by_refusal(trainer.node, in_trainer)
    for engine, passed in _engines(source, trainer, in_trainer):
        names = passed | _attributes_set_from(engine.node, passed)
        closed |= closed_sets.values_by_refusal(engine.node, names)
    further = closed_sets.values_by_mapping(config)
    return {field: (*values, *further.get(field, ())) for field, values in closed.items()}


def _attributes_set_from(node: ast.ClassDef, names: Mapping[str, str]) -> dict[str, str]:
    """`self.mode = mode` in a class' __init__, where `mode` stands for a field: {"self.mode": field}."""
    return {
        closed_sets.dotted_name(statement.targets[0]): names[closed_sets.dotted_name(statement.value)]
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
        for statement in ast.walk(method)
        if isinstance(statement, ast.Assign) and closed_sets.dotted_name(statement.value) in names
    }


def _engines(
    source: PackageSource, trainer: ClassSource, names: Mapping[str, str]
) -> list[tuple[ClassSource, dict[str, str]]]:
    """The classes of the package to which the trainer hands fields, and parameter -> field for each."""
    engines: list[tuple[ClassSource, dict[str, str]]] = []
    for call in ast.walk(trainer.node):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id.islower():
            continue
        passed = {
            keyword.arg: names[name]
            for keyword in call.keywords
            if keyword.arg is not None and (name := closed_sets.dotted_name(keyword.value)) in names
        }
        engine = source.find_class(trainer.module, call.func.id) if passed else None
        if engine is not None:
            engines.append((engine, passed))
    return engines


def _with_allowed(fields: Mapping[str, Field], closed: Allowed) -> dict[str, Field]:
    return {name: _closed(field, closed.get(name)) for name, field in fields.items()}


def _closed(field: Field, values: tuple[object, ...] | None) -> Field:
    """The field with its closed set; open when the set would refuse the field's own default."""
    if not values:
        values = closed_sets.values_of_annotation(field.annotation) if field.annotation else None
    if values is None:
        return field
    if field.default is None and None not in values:
        values = (*values, None)
    if not isinstance(field.default, NoDefault) and field.default not in values:
        return field
    return field._replace(allowed=values)
