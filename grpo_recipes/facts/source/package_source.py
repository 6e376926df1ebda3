"""Finds classes of an installed package in its source text without importing it."""

import ast
from dataclasses import dataclass, field
from pathlib import Path

_MOST_HOPS = 12


@dataclass(frozen=True, slots=True)
class ClassSource:
    """A class and the module that defines it."""

    module: str
    node: ast.ClassDef


@dataclass(slots=True)
class PackageSource:
    """The parsed modules of one package, and the files that were read.

    folder: of the package itself. files: module -> file, in the order of reading.
    """

    package: str
    folder: Path
    files: dict[str, Path] = field(default_factory=dict)
    _trees: dict[str, ast.Module | None] = field(default_factory=dict)

    def tree(self, module: str) -> ast.Module | None:
        """The parsed module, None if it is not a file of this package or cannot be parsed."""
        if module not in self._trees:
            self._trees[module] = self._parse(module)
        return self._trees[module]

    def find_class(self, module: str, name: str, hops: int = _MOST_HOPS) -> ClassSource | None:
        """The class that `name` refers to in `module`, following imports; None outside this package."""
        tree = self.tree(module)
        if tree is None or hops == 0:
            return None
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return ClassSource(module, node)
        # Imports may be under `if TYPE_CHECKING`, as in packages that load lazily.
        for imported in ast.walk(tree):
            if isinstance(imported, ast.ImportFrom):
                for alias in imported.names:
                    if (alias.asname or alias.name) == name:
                        origin = self._module_of_import(module, imported)
                        class_source = self.find_class(origin, alias.name, hops - 1)
                        if class_source is not None:
                            return class_source
        return None

    def _module_of_import(self, module: str, node: ast.ImportFrom) -> str:
        if node.level == 0:
            return node.module or ""
        parts = module.split(".")
        # In a package's __init__ one dot is the package itself.
        drop = node.level - (1 if self._is_package(module) else 0)
        base = parts[: len(parts) - drop] if drop else parts
        return ".".join([*base, node.module] if node.module else base)

    def _is_package(self, module: str) -> bool:
        return module in self.files and self.files[module].name == "__init__.py"

    def _parse(self, module: str) -> ast.Module | None:
        top, _, rest = module.partition(".")
        if top != self.package:
            return None
        path = self.folder.joinpath(*rest.split(".")) if rest else self.folder
        for file in (path.with_suffix(".py") if rest else None, path / "__init__.py"):
            if file is not None and file.is_file():
                self.files[module] = file
                try:
                    return ast.parse(file.read_bytes())
                except (OSError, SyntaxError, ValueError, RecursionError):
                    return None
        return None
