"""Finds the function that a call of a name reaches, through functools.partial and objects of a class."""

import ast

from grpo_recipes.user_files.functions.definitions import Definition, FunctionNode, Module, definition, module_of


def called_definition(path: str, name: str) -> Definition | str | None:
    """As `definition`, but also what a call of functools.partial(function, key=...) or of a class's object reaches."""
    target = definition(path, name)
    if not isinstance(target, str):
        return target
    module = module_of(path)
    match module.bound.get(name):
        case [(ast.Call(func=maker, args=[ast.Name(id=inner)], keywords=keywords), False)] if (
            _is_partial(module, maker) and inner != name and all(keyword.arg for keyword in keywords)
        ):
            function = called_definition(path, inner)
            if isinstance(function, Definition) and not isinstance(function.node, ast.ClassDef):
                return function._replace(bound=function.bound | {str(keyword.arg) for keyword in keywords})
        case [(ast.Call(func=ast.Name(id=inner)), False)]:
            made = definition(path, inner)
            if isinstance(made, Definition) and (method := _call_method(made)) is not None:
                return made._replace(node=method, bound=frozenset({method.args.args[0].arg}))
    return target


def _is_partial(module: Module, maker: ast.expr) -> bool:
    match maker:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id=name), attr="partial"):
            imports = [node for node, _ in module.bound.get(name, [])]
            return len(imports) == 1 and ast.unparse(imports[0]) in (
                "import functools",
                "from functools import partial",
            )
    return False


def _call_method(made: Definition) -> FunctionNode | None:
    """The method that a call of a class's object reaches, None for any other definition and if a base may have it."""
    node = made.node
    if not isinstance(node, ast.ClassDef) or node.bases or node.keywords or node.decorator_list:
        return None
    calls = [each for each in node.body if isinstance(each, FunctionNode) and each.name == "__call__"]
    return calls[0] if len(calls) == 1 and calls[0].args.args else None
