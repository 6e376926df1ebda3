"""Which type hints of a Python file transformers can describe to a model, read from source."""

import ast
import builtins
from functools import lru_cache

TAKEN = frozenset({"int", "float", "str", "bool", "list", "tuple", "dict", "Any", "None"})
"""Types that transformers converts to a JSON schema, as it does Enum classes, Literal and unions."""
_GENERIC = {"List": "list", "Tuple": "tuple", "Dict": "dict"}
_TYPING = frozenset({"typing", "typing_extensions"})
_OF_TYPING = frozenset({"Any", "Optional", "Union", "Literal", "Annotated", *_GENERIC})
_NEVER = frozenset({"Callable", "FrozenSet", "Iterable", "Iterator", "Mapping", "Sequence", "Set", "MutableMapping"})
_CLASSES = {
    "collections.abc": _NEVER,
    "datetime": frozenset({"date", "datetime", "time", "timedelta"}),
    "decimal": frozenset({"Decimal"}),
    "fractions": frozenset({"Fraction"}),
    "pathlib": frozenset({"Path"}),
    "uuid": frozenset({"UUID"}),
}
"""Classes of the standard library without a JSON schema, by module."""
_NO_ENUM = frozenset({"TypedDict", "NamedTuple", "Protocol", "BaseModel"})


@lru_cache(maxsize=16)
def hints_of(tree: ast.Module) -> "Hints":
    """The names of a file that type hints may use, cached since several rules need the same file."""
    return Hints(tree)


class Hints:
    """The names of a file that type hints may use."""

    def __init__(self, tree: ast.Module) -> None:
        # The type that each name refers to; "" if only running the file would show it.
        self._meant: dict[str, str] = {}
        self._classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                self._meant |= {alias.asname or alias.name: f"{module}{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                self._meant[node.id] = ""
            elif isinstance(name := getattr(node, "name", None), str) and not isinstance(node, ast.alias):
                self._meant[name] = ""
        self._meant |= {name: name for name in self._classes}

    def unsaid(self, hint: ast.expr) -> str | None:
        """Why transformers raises TypeHintParsingException for a type hint; None if it does not, or may not."""
        match hint:
            case ast.Constant(value=str(text)):
                try:
                    return self.unsaid(ast.parse(text.strip(), mode="eval").body)
                except (SyntaxError, ValueError, RecursionError, MemoryError):
                    return None
            case ast.BinOp(op=ast.BitOr()):
                return self.unsaid(hint.left) or self.unsaid(hint.right)
            case ast.Subscript():
                return self._of_subscript(self._name(hint.value), hint)
            case ast.Name() | ast.Attribute():
                return self._of_name(self._name(hint), ast.unparse(hint))
        return None

    def _name(self, node: ast.expr) -> str:
        """The full name of a type: "list", "typing.Optional", "Color" of the file; "" if unknown."""
        if isinstance(node, ast.Attribute):
            module = self._name(node.value)
            return f"{module}.{node.attr}" if module else ""
        return self._meant.get(node.id, node.id) if isinstance(node, ast.Name) and "*" not in self._meant else ""

    def _of_name(self, name: str, shown: str) -> str | None:
        if name in self._classes:
            return _of_class(self._classes[name], shown)
        module, _, last = name.rpartition(".")
        never = _NEVER if module in _TYPING else _CLASSES.get(module, frozenset())
        is_other = not module and last not in TAKEN and isinstance(getattr(builtins, last, None), type)
        return f"{shown} is not a JSON type" if last in never or is_other else None

    def _of_subscript(self, name: str, hint: ast.Subscript) -> str | None:
        module, _, last = name.rpartition(".")
        inside = hint.slice.elts if isinstance(hint.slice, ast.Tuple) else [hint.slice]
        if module in _TYPING and last in _OF_TYPING:
            last = _GENERIC.get(last, last)
        elif module or last not in ("list", "tuple", "dict"):
            return self._of_name(name, ast.unparse(hint))
        if last == "tuple" and any(isinstance(element, ast.Constant) and element.value is ... for element in inside):
            return f"{ast.unparse(hint)} is a tuple without a fixed length; use list[...]"
        if last == "tuple" and len(inside) == 1:
            return f"{ast.unparse(hint)} is a tuple of one"
        if last == "Literal":
            return None
        looked_at = {"list": inside[:1], "Annotated": inside[:1], "dict": inside[1:]}.get(last, inside)
        return next((why for element in looked_at if (why := self.unsaid(element)) is not None), None)


def _of_class(node: ast.ClassDef, shown: str) -> str | None:
    """A class of the file can be described if it is an Enum; one with unknown bases may be."""
    bases = [base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases]
    is_none = not node.keywords and all(base in _NO_ENUM for base in bases)
    return f"{shown} is a class of the file, but not an Enum" if is_none else None
