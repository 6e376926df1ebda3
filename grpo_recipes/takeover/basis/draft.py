"""The draft of a recipe, and the fate of every key that was read for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ANYWAY = "what grpo-run does anyway"
Fate = Literal["mapped", "emulated", "refused"]


@dataclass(frozen=True, slots=True)
class Row:
    """One key of the input.

    key: as in the input, after the file's name if there are several. where: the recipe keys for it, () if nothing needs
    to be written. because: why it is not a plain move, "" if it is one.
    """

    key: str
    value: object
    fate: Fate
    where: tuple[str, ...] = ()
    because: str = ""


@dataclass(slots=True)
class Draft:
    """The recipe so far.

    values: by recipe key, "grpo.beta"; rewards are under "rewards". comments: by recipe key. files: texts to write
    next to the recipe, by name. stubs: reward functions for their author to fill in, with their options.
    """

    values: dict[str, object] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    stubs: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def put(self, where: str, value: object, comment: str = "") -> None:
        """Writes a value that does not come from a single key of the input."""
        self.values[where] = value
        if comment:
            self.comments[where] = comment


@dataclass(slots=True)
class Given:
    """The input's unprocessed keys, by TRL's names.

    names: the input's spelling if it differs.
    """

    values: dict[str, object]
    draft: Draft
    names: dict[str, str] = field(default_factory=dict)
    taken: dict[str, object] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def name(self, name: str) -> str:
        """The key as the input spells it."""
        return self.names.get(name, name)

    def take(self, name: str) -> object:
        """The value of a key, which is then processed; None without it."""
        value = self.values.pop(name, None)
        self.taken[name] = value
        return value

    def inside(self, name: str) -> "Given":
        """The keys in the map of a key, which is then processed; none if it is missing or not a map."""
        block = self.take(name) if name in self else {}
        values = dict(block) if isinstance(block, Mapping) else {}
        return Given(values, self.draft, {key: f"{self.name(name)}.{key}" for key in values})

    def mapped(self, name: str, where: str | None, value: object = None, because: str = "") -> None:
        """Moves the key to a recipe key, or, with None, to what grpo-run does anyway."""
        self._settle(name, "mapped", where, value, because)

    def told(self, name: str, fate: Fate, where: str, because: str) -> None:
        """Adds a row for a key whose value is written together with others."""
        said = self.values.pop(name, self.taken.get(name))
        self.taken[name] = said
        self.draft.rows.append(Row(self.name(name), said, fate, (where,), because))

    def emulated(self, name: str, where: str | None, value: object, because: str) -> None:
        """Records that the recipe expresses a key differently, which the user should know."""
        self._settle(name, "emulated", where, value, because)
        if where:
            self.draft.comments[where] = f"{self.name(name)}: {because}"

    def refused(self, name: str, because: str, where: str | None = None) -> None:
        """Records that a recipe has no equivalent. where: the recipe key or section at which to say so."""
        said = self.values.pop(name, self.taken.get(name))
        self.draft.rows.append(Row(self.name(name), said, "refused", (where,) if where else (), because))

    def answer(self, name: str, said: Mapping[str, Any] | None, anyway: str = "") -> None:
        """The row of a key that a table decides. anyway: why a key that is not in the table has no effect."""
        value = self.values[name]
        if said is None:
            if anyway:
                self.emulated(name, None, None, anyway)
            else:
                self.refused(name, "no recipe key has this meaning")
        elif any(_says(value, one) for one in said.get("unless", ())):
            self.mapped(name, None, because=ANYWAY)
        elif value in said.get("for", ()):
            self.emulated(name, None, None, said["does"])
        elif said.get("fate") == "emulated":
            self.emulated(name, None, None, said["because"])
        else:
            self.refused(name, said["because"])

    def _settle(self, name: str, fate: Fate, where: str | None, value: object, because: str) -> None:
        said = self.values.pop(name, self.taken.get(name))
        self.taken[name] = said
        if where:
            self.draft.values[where] = value
        self.draft.rows.append(Row(self.name(name), said, fate, (where,) if where else (), because))


def _says(value: object, known: object) -> bool:
    """Whether a value is the known one, or a mapping that contains part of it and nothing else."""
    if isinstance(value, dict) and isinstance(known, dict):
        return value.items() <= known.items()
    return value == known and isinstance(value, bool) == isinstance(known, bool)
