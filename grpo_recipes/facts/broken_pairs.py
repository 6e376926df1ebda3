"""A reviewed table of package combinations that pip allows but that fail to import or train."""

import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from grpo_recipes.facts.classified import OPERATORS, Condition
from grpo_recipes.facts.released.shipped import table
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.stack.stack import Stack

TABLE = "broken_pairs"
ABSENT = "absent"


class BrokenPair(NamedTuple):
    """One combination: the failure, its cause, how it was observed, and the nearest working versions.

    packages: name -> specifier, or "absent"; all must hold. without_gpus: it fails only without a GPU.
    when: conditions on a recipe's settings, () if no recipe works; a key without a dot is a section, true or false.
    works: alternatives, each the packages to change, nearest first. write: recipe keys whose values avoid it.
    instead: alternatives that only the author can choose, in words; "" for none.
    """

    packages: Mapping[str, str]
    happens: str
    because: str
    seen: str
    works: Sequence[Mapping[str, str]]
    without_gpus: bool = False
    when: tuple[Condition, ...] = ()
    write: Mapping[str, object] = MappingProxyType({})
    instead: str = ""

    def holds(self, stack: Stack) -> bool:
        """Whether the stack has this combination; False if one of its versions is unknown."""
        if self.without_gpus and stack.gpus != ():
            return False
        return holds(self.packages, stack)

    def is_met(self, values: Mapping[str, object]) -> bool:
        """Whether a recipe with these values of the keys in `when` is affected."""
        return all(OPERATORS[operator](values[key], operand) for key, operator, operand in self.when)

    def text_for(self, stack: Stack) -> str:
        """The packages with their versions: "trl 0.14.0 with transformers 4.52.4"."""
        absent = [f" without {name}" for name, window in self.packages.items() if window == ABSENT]
        present = [f"{name} {stack.version(name)}" for name, window in self.packages.items() if window != ABSENT]
        return " with ".join(present) + "".join(absent)

    def fix(self, ways: Sequence[Mapping[str, str]]) -> str:
        """What to write, install or change, nearest first, as text to paste. ways: the releases that mend a stack."""
        write = [f"{key.rpartition('.')[2]}: {str(value).lower()}" for key, value in self.write.items()]
        missing = [f"pip install {name}" for name, window in self.packages.items() if window == ABSENT]
        return either([*([self.instead] if self.instead else []), *write, *missing], ways)


@functools.cache
def broken_pairs() -> tuple[BrokenPair, ...]:
    """The whole table."""
    rows = table(TABLE)["pairs"]
    return tuple(BrokenPair(**{**row, "when": tuple(map(tuple, row.get("when", ())))}) for row in rows)


def either(texts: Sequence[str], ways: Sequence[Mapping[str, str]]) -> str:
    """Alternatives in words, versions last: "use_vllm: false, or trl==0.15.2"."""
    versions = [" and ".join(f"{package}=={version}" for package, version in way.items()) for way in ways]
    return ", or ".join([*texts, *versions])


def holds(packages: Mapping[str, str], stack: Stack) -> bool:
    """Whether every package of the stack is within its window; False if one of the versions is unknown."""
    for name, window in packages.items():  # noqa: SIM110 - a generator here takes 1.5 % of what `plan` executes
        if not _within(stack, name, window):
            return False
    return True


def _within(stack: Stack, name: str, window: str) -> bool:
    version = stack.version(name)
    if version is None or window == ABSENT:
        return window == ABSENT and stack.is_absent(name)
    try:
        return is_within(version, window)
    except ValueError:
        return False
