"""Finds and reads modules of installed packages without importing them."""

import os
import sys
from functools import lru_cache
from importlib.machinery import ModuleSpec
from typing import NamedTuple

from grpo_recipes.stack.stack import Stack
from grpo_recipes.user_files.functions.definitions import Definition, definition, makes_a_reward


class InstalledModule(NamedTuple):
    """A module. package and release: of its distribution. file: its source."""

    package: str
    release: str
    file: str


@lru_cache(maxsize=16)
def find_installed_module(module: str) -> InstalledModule | None:
    """A module by its dotted name, None if no installed package has its source.

    Excludes the standard library, and modules on the path that belong to no distribution.
    """
    from importlib import metadata

    top, *below = module.split(".")
    file = None if top in sys.stdlib_module_names else _file(top, below)
    if file is None:
        return None
    for name in _distributions(top):
        try:
            distribution = metadata.distribution(name)
        except (metadata.PackageNotFoundError, ValueError):
            continue
        if distribution.version:
            return InstalledModule(distribution.metadata["Name"], distribution.version, file)
    return None


def _distributions(top: str) -> list[str]:
    """Distributions that may provide a top-level module: the one with its name, else those that list it."""
    from importlib import metadata

    try:
        metadata.distribution(top)
    except (metadata.PackageNotFoundError, ValueError):
        return metadata.packages_distributions().get(top, [])  # reads what every package lists: a tenth of a second
    return [top]


def _file(top: str, below: list[str]) -> str | None:
    spec = _spec(top)
    if spec is None:
        return None
    folders = list(spec.submodule_search_locations or ())
    if not below:
        return spec.origin if spec.origin is not None and spec.origin.endswith(".py") else None
    for folder in folders:
        base = os.path.join(folder, *below)
        for file in (os.path.join(base, "__init__.py"), f"{base}.py"):
            if os.path.isfile(file):
                return file
    return None


def _spec(top: str) -> ModuleSpec | None:
    # importlib.util.find_spec would also find modules already loaded from elsewhere.
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(top, None)
        except (ImportError, ValueError, AttributeError):
            continue
        if spec is not None:
            return spec
    return None


class PackageReward(NamedTuple):
    """module and name: as in the recipe. package, release: of the stack, None if unknown.

    file: the source of the module, None for a declared stack and if it is not installed. found: the definition of the
    name in it.
    """

    module: str
    name: str
    package: str | None
    release: str | None
    file: str | None
    found: Definition | str | None

    @property
    def is_factory(self) -> bool | None:
        """Whether the function returns the reward instead of being it; None if unknown."""
        if not isinstance(self.found, Definition) or self.found.decorators:
            return None
        return makes_a_reward(self.found.node)


def package_reward(stack: Stack, python: str) -> PackageReward:
    """The reward that a recipe names as "module:name". The source is read for the stack of this machine only."""
    module, _, name = python.rpartition(":")
    installed = None if stack.declared else find_installed_module(module)
    if installed is None:
        top = module.partition(".")[0]
        release = stack.version(top) if stack.declared else None
        return PackageReward(module, name, top if stack.is_known(top) else None, release, None, None)
    target: Definition | str | None
    try:
        target = definition(installed.file, name)
    except (OSError, SyntaxError, ValueError) as problem:
        target = f"{installed.file}: {problem}"
    return PackageReward(module, name, installed.package, installed.release, installed.file, target)
