"""Rewards that are functions of installed packages, as a stack has them; read, never run."""

from typing import NamedTuple

from grpo_recipes.stack.stack import Stack
from grpo_recipes.user_files.functions.definitions import Definition, definition, makes_a_reward
from grpo_recipes.user_files.functions.installed import installed_module


class PackageReward(NamedTuple):
    """module and name: as the recipe says them. package, release: of the stack, None where it does not say.

    file: the source of the module, None where that of the stack is not here. found: what the name is in it.
    """

    module: str
    name: str
    package: str | None
    release: str | None
    file: str | None
    found: Definition | str | None

    @property
    def is_factory(self) -> bool | None:
        """Whether the function makes the reward instead of being it; None where that is not known."""
        if not isinstance(self.found, Definition) or self.found.decorators:
            return None
        return makes_a_reward(self.found.node)


def package_reward(stack: Stack, python: str) -> PackageReward:
    """The reward that a recipe names as "module:name"."""
    module, _, name = python.rpartition(":")
    installed = installed_module(module)
    top = module.partition(".")[0]
    package = installed.package if installed is not None else top if stack.is_known(top) else None
    if stack.declared:
        release = None if package is None else stack.version(package)
    else:
        release = None if installed is None else installed.release
    if installed is None or installed.release != release:
        return PackageReward(module, name, package, release, None, None)
    found: Definition | str | None
    try:
        found = definition(installed.file, name)
    except (OSError, SyntaxError, ValueError) as problem:
        found = f"{installed.file}: {problem}"
    return PackageReward(module, name, package, release, installed.file, found)


def is_of_trl(name: str) -> bool:
    """Whether the TRL that is installed here has a reward of this name."""
    installed = installed_module("trl.rewards")
    try:
        return installed is not None and isinstance(definition(installed.file, name), Definition)
    except (OSError, SyntaxError, ValueError):
        return False
