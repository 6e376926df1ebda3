"""Rewards that are functions of installed packages, as a stack has them; read, never run."""

from collections.abc import Mapping
from typing import NamedTuple

from grpo_recipes.stack.stack import Stack
from grpo_recipes.user_files.functions.declared import makes_a_reward
from grpo_recipes.user_files.functions.definitions import Definition, Unread, definition
from grpo_recipes.user_files.functions.installed import installed_module, names_module


class PackageReward(NamedTuple):
    """module and name: as the recipe says them. package, release: of the stack, None where it does not say.

    is_read: whether the source that the stack has is here. found: what the name is in it.
    """

    module: str
    name: str
    package: str | None
    release: str | None
    is_read: bool
    found: Definition | Unread | None

    @property
    def is_factory(self) -> bool | None:
        """Whether it makes the reward instead of being it; None where that is not known."""
        is_one = isinstance(self.found, Definition) and (not self.found.decorators)
        return makes_a_reward(self.found.node) if is_one and isinstance(self.found, Definition) else None


def package_reward(stack: Stack, reward: Mapping[str, object]) -> PackageReward | None:
    """The reward of a package that a recipe names, None for any other."""
    python = reward.get("python")
    if not isinstance(python, str) or not names_module(python):
        return None
    module, _, name = python.rpartition(":")
    installed = installed_module(module)
    top = module.partition(".")[0]
    package = installed.package if installed is not None else top if stack.is_known(top) else None
    if stack.declared:
        release = None if package is None else stack.version(package)
    else:
        release = None if installed is None else installed.release
    if installed is None or installed.release != release:
        return PackageReward(module, name, package, release, False, None)
    try:
        found = definition(installed.file, name)
    except (OSError, SyntaxError, ValueError) as problem:
        found = Unread(f"{installed.file}: {problem}")
    return PackageReward(module, name, package, release, True, found)


def is_of_trl(name: str) -> bool:
    """Whether the TRL that is installed here has a reward of this name."""
    installed = installed_module("trl.rewards")
    try:
        return installed is not None and isinstance(definition(installed.file, name), Definition)
    except (OSError, SyntaxError, ValueError):
        return False
