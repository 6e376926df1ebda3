"""Reads from source which logits keyword a model class' forward takes; nothing is imported."""

import ast

from grpo_recipes.facts.source.package_facts import NEW, OLD, LogitsKeyword
from grpo_recipes.facts.source.package_source import PackageSource
from grpo_recipes.facts.source.read import find_method


def read_logits_keyword(source: PackageSource, module: str, model_class: str) -> LogitsKeyword | None:
    """What the class' own or inherited forward takes, None when the class or its forward is not found."""
    found = source.find_class(module, model_class)
    if found is None:
        return None
    forward = find_method(found.node, "forward")
    if forward is not None:
        return _of_forward(forward)
    for base in found.node.bases:
        if isinstance(base, ast.Name) and base.id != model_class:
            inherited = read_logits_keyword(source, found.module, base.id)
            if inherited is not None:
                return inherited
    return None


def _of_forward(forward: ast.FunctionDef) -> LogitsKeyword:
    arguments = forward.args
    names = {argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    name = next((word for word in (NEW, OLD) if word in names), None)
    translated = any(
        isinstance(mark, ast.Call)
        and ast.unparse(mark.func).endswith("deprecate_kwarg")
        and bool(mark.args)
        and isinstance(mark.args[0], ast.Constant)
        and mark.args[0].value == OLD
        for mark in forward.decorator_list
    )
    return LogitsKeyword(name, translated, arguments.kwarg is not None)
