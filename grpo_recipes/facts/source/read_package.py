"""Reads the facts of a release from its source, including the allowed values of fields; imports nothing."""

import ast
from collections.abc import Iterator, Mapping, Sequence

from grpo_recipes.facts.source.field import Field, NoDefault
from grpo_recipes.facts.source.package_facts import METHODS, MODULES, NOT_IN_ALL_RELEASES, OwnerFacts, PackageFacts
from grpo_recipes.facts.source.package_source import ClassSource, PackageSource
from grpo_recipes.facts.source.read import dataclass_fields, enum_values, method_fields, outside_bases, struct_fields

Values = tuple[object, ...]


def read_package(source: PackageSource, version: str) -> PackageFacts | None:
    """The facts of an installed package, None if one of its classes is not where this reader expects it."""
    sources = {owner: _find(source, owner, modules) for owner, modules in MODULES[source.package].items()}
    classes = {owner: class_source for owner, class_source in sources.items() if class_source is not None}
    if set(sources) - set(classes) - NOT_IN_ALL_RELEASES:
        return None
    owners = {owner: _read_owner(source, owner, classes) for owner in classes}
    return PackageFacts(source.package, version, owners)


def _find(source: PackageSource, owner: str, modules: Sequence[str]) -> ClassSource | None:
    return next(filter(None, (source.find_class(module, owner) for module in modules)), None)


def _read_owner(source: PackageSource, owner: str, classes: Mapping[str, ClassSource]) -> OwnerFacts:
    class_source = classes[owner]
    if owner in METHODS:
        return OwnerFacts((), method_fields(class_source.node, METHODS[owner]))
    if owner == "BitsAndBytesConfig":
        fields = method_fields(class_source.node)
        names = {name: name for name in fields}
        closed = values_by_refusal(class_source.node, names)
        # transformers takes any string here; bitsandbytes refuses values that this class does not compare it with.
        compared = values_by_comparison(class_source.node, "self.bnb_4bit_quant_type")
        return OwnerFacts((), _with_allowed(fields, {**closed, "bnb_4bit_quant_type": compared}))
    if owner == "SamplingParams":
        return OwnerFacts((), struct_fields(class_source.node))
    fields = dataclass_fields(source, class_source)
    closed = values_by_conversion(source, class_source)
    if owner == "GRPOConfig":
        closed |= _values_of_trainer(source, class_source.node, classes["GRPOTrainer"], fields)
    return OwnerFacts(outside_bases(source, class_source), _with_allowed(fields, closed))


def _values_of_trainer(
    source: PackageSource, config: ast.ClassDef, trainer: ClassSource, fields: Mapping[str, Field]
) -> dict[str, Values]:
    """The closed sets of GRPOConfig's fields.

    GRPOConfig itself accepts anything; the trainer refuses late: vllm_mode when it starts the engine, loss_type and
    importance_sampling_level in the first loss, scale_rewards after the first generation.
    """
    in_config = {f"self.{name}": name for name in fields}
    in_trainer = {f"{owner}.{name}": name for name in fields for owner in ("args", "self.args")}
    in_trainer |= _attributes_set_from(trainer.node, in_trainer)
    closed = values_by_refusal(config, in_config)
    closed |= values_by_refusal(trainer.node, in_trainer)
    for engine, passed in _engines(source, trainer, in_trainer):
        names = passed | _attributes_set_from(engine.node, passed)
        closed |= values_by_refusal(engine.node, names)
    further = values_by_mapping(config)
    return {field: (*values, *further.get(field, ())) for field, values in closed.items()}


def _attributes_set_from(node: ast.ClassDef, names: Mapping[str, str]) -> dict[str, str]:
    """Attributes set in __init__ from a variable for a field: `self.mode = mode` gives {"self.mode": field}."""
    return {
        dotted_name(statement.targets[0]): names[dotted_name(statement.value)]
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
        for statement in ast.walk(method)
        if isinstance(statement, ast.Assign) and dotted_name(statement.value) in names
    }


def _engines(
    source: PackageSource, trainer: ClassSource, names: Mapping[str, str]
) -> list[tuple[ClassSource, dict[str, str]]]:
    """The package's classes that the trainer passes fields to, and parameter -> field for each."""
    engines: list[tuple[ClassSource, dict[str, str]]] = []
    for call in ast.walk(trainer.node):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id.islower():
            continue
        passed = {
            keyword.arg: names[name]
            for keyword in call.keywords
            if keyword.arg is not None and (name := dotted_name(keyword.value)) in names
        }
        engine = source.find_class(trainer.module, call.func.id) if passed else None
        if engine is not None:
            engines.append((engine, passed))
    return engines


def _with_allowed(fields: Mapping[str, Field], closed: Mapping[str, Values]) -> dict[str, Field]:
    return {name: _close(field, closed.get(name)) for name, field in fields.items()}


def _close(field: Field, values: Values | None) -> Field:
    """The field with its closed set; left open if the set would refuse the field's own default."""
    if not values:
        values = values_of_annotation(field.annotation) if field.annotation else None
    if values is None:
        return field
    if field.default is None and None not in values:
        values = (*values, None)
    if not isinstance(field.default, NoDefault) and field.default not in values:
        return field
    return field._replace(allowed=values)


def values_of_annotation(annotation: str) -> Values | None:
    """The values of a plain annotation of Literal, bool and None only; None if it is open.

    A literal with "[" in it is a pattern ("pissa_niter_[number of iters]") and leaves the set open.
    """
    try:
        members = list(_union_members(ast.parse(annotation, mode="eval").body))
    except (SyntaxError, ValueError):
        return None
    values: list[object] = []
    is_literal = False
    for member in members:
        if isinstance(member, ast.Constant) and member.value is None:
            values.append(None)
        elif isinstance(member, ast.Name) and member.id == "bool":
            values += [True, False]
        elif isinstance(member, ast.Subscript) and dotted_name(member.value).endswith("Literal"):
            is_literal = True
            constants = _constants(member.slice)
            if constants is None or any("[" in str(constant) for constant in constants):
                return None
            values += constants
        else:
            return None
    return tuple(values) if is_literal else None


def values_by_conversion(source: PackageSource, class_source: ClassSource) -> dict[str, Values]:
    """Fields that the class converts to an enumeration: `self.optim = OptimizerNames(self.optim)`."""
    closed: dict[str, Values] = {}
    for node in ast.walk(class_source.node):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        target, call = dotted_name(node.targets[0]), node.value
        if len(call.args) == 1 and isinstance(call.func, ast.Name) and dotted_name(call.args[0]) == target:
            values = enum_values(source, class_source.module, call.func.id)
            if values and target.startswith("self."):
                closed[target.removeprefix("self.")] = values
    return closed


def values_by_mapping(node: ast.ClassDef) -> dict[str, Values]:
    """Values that the class translates: `self.f = {True: "group"}.get(self.f, self.f)` adds True to f."""
    further: dict[str, Values] = {}
    for statement in ast.walk(node):
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
            continue
        call, target = statement.value, dotted_name(statement.targets[0])
        if isinstance(call.func, ast.Attribute) and call.func.attr == "get" and call.args:
            table = call.func.value
            if isinstance(table, ast.Dict) and dotted_name(call.args[0]) == target:
                keys = [key.value for key in table.keys if isinstance(key, ast.Constant)]
                further[target.removeprefix("self.")] = tuple(keys)
    return further


def values_by_refusal(node: ast.AST, fields_by_name: Mapping[str, str]) -> dict[str, Values]:
    """Fields for which some values lead to a `raise`, with the values that do not.

    fields_by_name: expressions for fields in this code, {"self.loss_type": "loss_type"}. Recognizes two forms: a chain
    `if f == .. elif f in .. else: raise` anywhere; and `if f not in [..]: raise` under conditions on f only. Several
    such places are intersected.
    """
    closed: dict[str, Values] = {}
    for field, values in _refusals(node, fields_by_name, ()):
        known = closed.get(field)
        closed[field] = values if known is None else tuple(value for value in known if value in values)
    return {field: values for field, values in closed.items() if values}


def values_by_comparison(node: ast.AST, name: str) -> Values:
    """Every constant that this code compares with `name`, in the order of the source."""
    values: list[object] = []
    for compare in ast.walk(node):
        accepted = _field_and_constants(compare, {name: name}) if isinstance(compare, ast.Compare) else None
        values += [value for value in accepted[1] if value not in values] if accepted else []
    return tuple(values)


def dotted_name(node: ast.AST) -> str:
    """`self.args.beta` -> "self.args.beta"; "" for anything but a plain name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (head := dotted_name(node.value)):
        return f"{head}.{node.attr}"
    return ""


def _refusals(
    node: ast.AST, names: Mapping[str, str], conditions: tuple[ast.expr, ...]
) -> Iterator[tuple[str, Values]]:
    if isinstance(node, ast.If):
        yield from _refusals_of_if(node, names, conditions)
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler):
            yield from _refusals(child, names, conditions)


def _refusals_of_if(
    node: ast.If, names: Mapping[str, str], conditions: tuple[ast.expr, ...]
) -> Iterator[tuple[str, Values]]:
    branches, last = _branches(node)
    chain = [_field_and_constants(branch.test, names) for branch in branches]
    fields = {accepted[0] for accepted in chain if accepted is not None}
    if _raises(last) and None not in chain and len(fields) == 1:
        yield fields.pop(), tuple(value for accepted in chain if accepted is not None for value in accepted[1])
    tests: tuple[ast.expr, ...] = conditions
    for branch in branches:
        refused = _field_and_constants(branch.test, names, operator=ast.NotIn)
        if refused and _raises(branch.body) and all(_speaks_of(t, refused[0], names) for t in tests):
            yield refused
        tests = (*tests, branch.test)
        for statement in branch.body:
            yield from _refusals(statement, names, tests)
    for statement in last:
        yield from _refusals(statement, names, tests)


def _branches(node: ast.If) -> tuple[list[ast.If], list[ast.stmt]]:
    """The tests of an if and its elifs, and the body of the final else."""
    branches = [node]
    while len(branches[-1].orelse) == 1 and isinstance(branches[-1].orelse[0], ast.If):
        branches.append(branches[-1].orelse[0])
    return branches, branches[-1].orelse


def _field_and_constants(
    test: ast.expr, names: Mapping[str, str], operator: type[ast.cmpop] | None = None
) -> tuple[str, Values] | None:
    """The only field that a test compares, and the constants; `operator` restricts the comparison."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) and operator is None:
        parts = [_field_and_constants(part, names) for part in test.values]
        fields = {part[0] for part in parts if part is not None}
        if None in parts or len(fields) != 1:
            return None
        return fields.pop(), tuple(value for part in parts if part is not None for value in part[1])
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    field = names.get(dotted_name(test.left))
    wanted = (operator,) if operator else (ast.Eq, ast.Is, ast.In)
    if field is None or not isinstance(test.ops[0], wanted):
        return None
    constants = _constants(test.comparators[0])
    return None if constants is None else (field, tuple(constants))


def _constants(node: ast.expr) -> list[object] | None:
    if isinstance(node, ast.Constant):
        return [node.value]
    if not isinstance(node, ast.List | ast.Tuple | ast.Set):
        return None
    constants: list[object] = [item.value for item in node.elts if isinstance(item, ast.Constant)]
    return constants if len(constants) == len(node.elts) else None


def _raises(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Raise)


def _speaks_of(test: ast.expr, field: str, names: Mapping[str, str]) -> bool:
    mentioned = {names[name] for node in ast.walk(test) if (name := dotted_name(node)) in names}
    return mentioned == {field}


def _union_members(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield from _union_members(node.left)
        yield from _union_members(node.right)
    else:
        yield node
