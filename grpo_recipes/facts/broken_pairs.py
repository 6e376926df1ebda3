"""Combinations that pip allows and that still cannot be imported or trained, a reviewed table."""

from collections.abc import Mapping
from dataclasses import dataclass

from grpo_recipes.facts.shipped import table
from grpo_recipes.facts.windows import is_within
from grpo_recipes.stack.stack import Stack

TABLE = "broken_pairs"


@dataclass(frozen=True, slots=True)
class BrokenPair:
    """One combination: what happens, why, how it was seen, and the nearest versions that work.

    packages: name -> specifier, all of which must hold. without_gpus: it holds only where there is no GPU.
    works: alternatives, each the packages to change, nearest first.
    """

    packages: Mapping[str, str]
    without_gpus: bool
    happens: str
    because: str
    seen: str
    works: tuple[Mapping[str, str], ...]

    def holds(self, stack: Stack) -> bool:
        """Whether the stack is this combination; False where one of its versions is not known."""
        if self.without_gpus and stack.gpus != ():
            return False
        return all(_within(stack.version(name), window) for name, window in self.packages.items())


def broken_pairs() -> tuple[BrokenPair, ...]:
    """The whole table."""
    return tuple(
        BrokenPair(
            packages=row["packages"],
            without_gpus=row.get("without_gpus", False),
            happens=row["happens"],
            because=row["because"],
            seen=row["seen"],
            works=tuple(row["works"]),
        )
        for row in table(TABLE)["pairs"]
    )


def _within(version: str | None, window: str) -> bool:
    if version is None:
        return False
    try:
        return is_within(version, window)
    except ValueError:
        return False
