"""Reads the fields, constructor parameters and logits keyword of a class from its source."""

import ast
from collections.abc import Iterator

from grpo_recipes.facts.source.field import REQUIRED, UNKNOWN, Field, last_name, plain_annotation
from grpo_recipes.facts.source.package_facts import NEW, OLD, LogitsKeyword
from grpo_recipes.facts.source.package_source import ClassSource, PackageSource


def ancestry(source: PackageSource, class_source: ClassSource) -> list[ClassSource]:
    """The class and its bases inside the package, bases first, each once."""
    ordered: list[ClassSource] = []
    for base in reversed(class_source.node.bases):
        above = source.find_class(class_source.module, last_name(base))
        if above is not None and above.node is not class_source.node:
            ordered += [ancestor for ancestor in ancestry(source, above) if ancestor not in ordered]
    return [*ordered, class_source]


def outside_bases(source: PackageSource, class_source: ClassSource) -> tuple[str, ...]:
    """The names of the bases in other packages, in order."""
    return tuple(
        last_name(base)
        for ancestor in ancestry(source, class_source)
        for base in ancestor.node.bases
        if source.find_class(ancestor.module, last_name(base)) is None
    )


def dataclass_fields(source: PackageSource, class_source: ClassSource) -> dict[str, Field]:
    """The parameters of the generated constructor, from the class and its bases inside the package.

    As dataclasses.fields(), except those declared with init=False. A default that is not a literal is UNKNOWN.
    """
    fields: dict[str, Field] = {}
    for ancestor in ancestry(source, class_source):
        if _is_dataclass(ancestor.node):
            fields |= {field.name: field for field in _own_fields(ancestor.node)}
    return fields


def struct_fields(node: ast.ClassDef) -> dict[str, Field]:
    """The parameters of a msgspec.Struct, except the private fields that it fills itself."""
    return {field.name: field for field in _own_fields(node) if not field.name.startswith("_")}


def method_fields(node: ast.ClassDef, method: str = "__init__") -> dict[str, Field]:
    """The named parameters of a method, without self, *args and **kwargs."""
    function = find_method(node, method)
    if function is None:
        return {}
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    pairs = [*zip(positional, [*defaults, *arguments.defaults], strict=True)][1:]
    pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {
        argument.arg: Field(
            argument.arg,
            plain_annotation(argument.annotation) if argument.annotation else "",
            REQUIRED if default is None else literal(default),
        )
        for argument, default in pairs
    }


def enum_values(source: PackageSource, module: str, name: str) -> tuple[object, ...] | None:
    """The values of an enumeration class of the package, None if `name` is not one."""
    enumeration = source.find_class(module, name)
    if enumeration is None or not any("Enum" in last_name(base) for base in enumeration.node.bases):
        return None
    values = [
        node.value.value
        for node in enumeration.node.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    ]
    return tuple(values)


def literal(node: ast.expr) -> object:
    """The JSON value of an expression, UNKNOWN if it must be computed."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return UNKNOWN
    return _json(value)


def _json(value: object) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        items = [_json(item) for item in value]
        return UNKNOWN if UNKNOWN in items else items
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _json(item) for key, item in value.items()}
    return UNKNOWN


def _own_fields(node: ast.ClassDef) -> Iterator[Field]:
    for statement in node.body:
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        annotation = plain_annotation(statement.annotation)
        if annotation.startswith(("ClassVar", "typing.ClassVar")):
            continue
        default = REQUIRED if statement.value is None else _default(statement.value)
        if default is not _NOT_IN_CONSTRUCTOR:
            yield Field(statement.target.id, annotation, default)


_NOT_IN_CONSTRUCTOR = object()


def _default(node: ast.expr) -> object:
    """The default of an assigned value: a literal, or the argument of field(...)."""
    if not isinstance(node, ast.Call) or last_name(node.func) != "field":
        return literal(node)
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    if "init" in keywords and literal(keywords["init"]) is False:
        return _NOT_IN_CONSTRUCTOR
    if "default" in keywords:
        return literal(keywords["default"])
    if "default_factory" in keywords:
        return _value_of_factory(keywords["default_factory"])
    return REQUIRED


def _value_of_factory(factory: ast.expr) -> object:
    if isinstance(factory, ast.Name) and factory.id in ("list", "tuple"):
        return []
    if isinstance(factory, ast.Name) and factory.id == "dict":
        return {}
    return literal(factory.body) if isinstance(factory, ast.Lambda) else UNKNOWN


def find_method(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    """The method that the class itself defines, None without one of this name."""
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            return statement
    return None


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any(
        last_name(mark.func if isinstance(mark, ast.Call) else mark) == "dataclass" for mark in node.decorator_list
    )


def read_logits_keyword(source: PackageSource, module: str, model_class: str) -> LogitsKeyword | None:
    """The keyword of the class's own or inherited forward, None if the class or its forward is not found."""
    class_source = source.find_class(module, model_class)
    if class_source is None:
        return None
    forward = find_method(class_source.node, "forward")
    if forward is not None:
        return _of_forward(forward)
    for base in class_source.node.bases:
        if isinstance(base, ast.Name) and base.id != model_class:
            inherited = read_logits_keyword(source, class_source.module, base.id)
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
