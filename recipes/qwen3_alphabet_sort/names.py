"""The environment of the alphabet sort recipe, after the verifiers environment alphabet-sort."""

import json
from difflib import SequenceMatcher
from typing import Any

NEW = " // new name!"


class Names:
    """Names come in turns. Each call gives all names so far in their order, and the answer brings the next ones."""

    def __init__(self, names_per_turn: int, turns: int) -> None:
        self.names_per_turn, self.turns = names_per_turn, turns
        self.groups: list[list[str]] = []
        self.similarities: list[float] = []
        self.by = "first"

    def reset(self, names: str, by: str, **row: Any) -> None:
        """Begins with the names of a row, a JSON list, to be sorted by first or last name."""
        each = list(dict.fromkeys(name.replace(" ", "") for name in json.loads(names)))
        starts = range(0, self.turns * self.names_per_turn, self.names_per_turn)
        self.groups = [each[start : start + self.names_per_turn] for start in starts if each[start:]]
        self.by, self.similarities = by, []

    def submit(self, names: list[str]) -> str:
        """Submits the sorted list of all names so far.

        Args:
            names: The names in their order.

        Returns:
            The names that come next, or that there are none.
        """
        turn = len(self.similarities)
        if turn >= len(self.groups):
            raise ValueError("all names were submitted")
        given = "\n".join(str(name).strip().lower() for name in names)
        self.similarities.append(SequenceMatcher(None, given, "\n".join(self._sorted(turn)).lower()).ratio())
        if turn + 1 == len(self.groups):
            return "That was the last list."
        return (
            f"Add these names: {', '.join(self.groups[turn + 1])}. Submit all names, sorted by {self.by} name, and put"
            f" {NEW.strip()!r} behind those that were not in the list before."
        )

    def _sorted(self, turn: int) -> list[str]:
        """The right list of a turn, counted from 0."""
        new = self.groups[turn] if turn else []
        names = sorted((name for group in self.groups[: turn + 1] for name in group), key=self._key)
        return [name + NEW * (name in new) for name in names]

    def _key(self, name: str) -> str:
        second = next((at for at, letter in enumerate(name) if at and letter.isupper()), len(name))
        return name[:second] if self.by == "first" else name[second:]


def score(environments: list[Names], **_: Any) -> list[float]:
    """The mean similarity of the lists, 0 for one that was not submitted, to the power of eight."""
    return [(sum(each.similarities) / max(len(each.groups), 1)) ** 8 for each in environments]
