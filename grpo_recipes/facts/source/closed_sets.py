"""Which values a field may have, where the package's own source refuses all others."""

import ast
from collections.abc import Iterator, Mapping

from grpo_recipes.facts.source.package_source import ClassSource, PackageSource
from grpo_recipes.facts.source.read import enum_values

Values = tuple[object, ...]


def values_of_annotation(annotation: str) -> Values | None:
    """The values of a plain annotation made of Literal, bool and None only; None when it is open.

    A literal with "[" in it stands for a pattern ("pissa_niter_[number of iters]") and leaves the set open.
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


def values_by_conversion(source: PackageSource, found: ClassSource) -> dict[str, Values]:
    """Fields that the class converts to an enumeration: `self.optim = OptimizerNames(self.optim)`."""
    closed: dict[str, Values] = {}
    for node in ast.walk(found.node):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        target, call = dotted_name(node.targets[0]), node.value
        if len(call.args) == 1 and isinstance(call.func, ast.Name) and dotted_name(call.args[0]) == target:
            values = enum_values(source, found.module, call.func.id)
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
    """Fields whose other values end in a `raise`, with the values that do not.

    fields_by_name: what stands for a field in this code, {"self.loss_type": "loss_type"}. Two forms count: a
    chain `if f == .. elif f in .. else: raise`, wherever it stands; and `if f not in [..]: raise` under
    conditions that speak of nothing but f. Several such places leave the values that all of them accept.
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
        accepted = _accepted(compare, {name: name}) if isinstance(compare, ast.Compare) else None
        values += [value for value in accepted[1] if value not in values] if accepted else []
    return tuple(values)


def dotted_name(node: ast.AST) -> str:
    """`self.args.beta` -> "self.args.beta"; "" for what is not a plain name."""
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
    chain = [_accepted(branch.test, names) for branch in branches]
    fields = {one[0] for one in chain if one is not None}
    if _raises(last) and None not in chain and len(fields) == 1:
        yield fields.pop(), tuple(value for one in chain if one is not None for value in one[1])
    tests: tuple[ast.expr, ...] = conditions
    for branch in branches:
        refused = _accepted(branch.test, names, operator=ast.NotIn)
        if refused and _raises(branch.body) and all(_speaks_of(t, refused[0], names) for t in tests):
            yield refused
        tests = (*tests, branch.test)
        for statement in branch.body:
            yield from _refusals(statement, names, tests)
    for statement in last:
        yield from _refusals(statement, names, tests)


def _branches(node: ast.If) -> tuple[list[ast.If], list[ast.stmt]]:
    """The if and its elifs, and the body of the final else."""
    branches = [node]
    while len(branches[-1].orelse) == 1 and isinstance(branches[-1].orelse[0], ast.If):
        branches.append(branches[-1].orelse[0])
    return branches, branches[-1].orelse


def _accepted(
    test: ast.expr, names: Mapping[str, str], operator: type[ast.cmpop] | None = None
) -> tuple[str, Values] | None:
    """The one field that a test compares, and with which constants; `operator` asks for that one alone."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) and operator is None:
        parts = [_accepted(part, names) for part in test.values]
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
