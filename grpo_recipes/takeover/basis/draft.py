"""The draft of a recipe, and the fate of every key that was read for it."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

ANYWAY = "what grpo-run does anyway"
Entry = Mapping[str, Any] | Sequence[Mapping[str, Any]]
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


class Unreadable(Exception):
    """A key cannot have this value; says why."""


def _texts(value: object) -> list[str]:
    if not isinstance(value, str | list):
        raise Unreadable("it must be a list")
    return list(map(str, value if isinstance(value, list) else [value]))


# The conversions of a table.
CONVERSIONS: dict[str, Callable[[Any], object]] = {
    "": lambda value: value,
    "list": lambda value: value if isinstance(value, list) else [value],
    "text": str,
    "texts": _texts,
}


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

    def rename(self, name: str, today: str) -> None:
        """Moves a key to its name today, unless that is there too."""
        if name in self and today not in self:
            self.values[today], self.names[today] = self.values.pop(name), name

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

    def map_key(self, name: str, where: str = "", value: object = None, because: str = "") -> None:
        """Moves the key to a recipe key, or, without one, to what grpo-run does anyway."""
        self.add_row(name, "mapped", where, because)
        if where:
            self.draft.values[where] = value

    def emulate_key(self, name: str, because: str, where: str = "", value: object = None) -> None:
        """Records that the recipe expresses a key differently, which the user should know."""
        self.add_row(name, "emulated", where, because)
        if where:
            self.draft.put(where, value, f"{self.name(name)}: {because}")

    def refuse_key(self, name: str, because: str, where: str = "") -> None:
        """Records that a recipe has no equivalent. where: the recipe key or section at which to say so."""
        self.add_row(name, "refused", where, because)

    def add_row(self, name: str, fate: Fate, where: str, because: str) -> None:
        """Adds the row of a key, without a value in the recipe."""
        self.taken[name] = self.values.pop(name, self.taken.get(name))
        self.draft.rows.append(Row(self.name(name), self.taken[name], fate, (where,) if where else (), because))

    def answer(self, name: str, entry: Entry | None) -> None:
        """Adds the row that a table has for a key.

        entry: one case, or several, of which the first counts that has the value in `is`, or no `is`. home: the recipe
        key, which gets `value`, or else the key's own, converted by `as`. unless: values for what grpo-run does anyway.
        at: the key or section at which to say that it is refused.
        """
        value = self.values[name]
        cases = cases_of(entry or {"because": "no recipe key has this meaning"})
        case = next(case for case in cases if "is" not in case or is_among(value, case["is"]))
        home, because = case.get("home", ""), case.get("because", "").replace("{value}", str(value))
        fate = case.get("fate", "mapped" if home else "refused")
        write = case.get("value", CONVERSIONS[case.get("as", "")](value))
        if is_among(value, case.get("unless", ())):
            self.map_key(name, because=ANYWAY)
        elif fate == "refused":
            self.refuse_key(name, because, case.get("at", ""))
        elif fate == "mapped":
            self.map_key(name, home, write, because)
        else:
            self.emulate_key(name, because, home, write)

    def answers(self, table: Mapping[str, Any], otherwise: Mapping[str, Any] | None = None) -> None:
        """Adds the rows that a table has for all remaining keys. otherwise: the entry of keys that it lacks."""
        for name in list(self.values):
            self.answer(name, table.get(name, otherwise))

    def file(self, name: str, folder: str, option: str, where: str) -> str | None:
        """The path of the file that a key names. None, with a row, if there is none in the folder."""
        path = os.path.join(folder, str(self.values[name]))
        if not os.path.isfile(path):
            self.refuse_key(name, f"it is not next to this file: add {option} FILE", where)
            return None
        self.map_key(name, because="its own keys follow")
        return path


def cases_of(entry: Entry) -> Sequence[Mapping[str, Any]]:
    """The cases of an entry."""
    return [entry] if isinstance(entry, Mapping) else entry


def is_among(value: object, known: Iterable[object]) -> bool:
    """Whether a value is a known one, or a mapping that contains part of one and nothing else."""
    return any(
        value.items() <= other.items()
        if isinstance(value, dict) and isinstance(other, dict)
        else value == other and isinstance(value, bool) == isinstance(other, bool)
        for other in known
    )
