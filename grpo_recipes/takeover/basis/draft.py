"""A recipe in the making, and what became of every key that was read for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ANYWAY = "what grpo-run does anyway"
Fate = Literal["mapped", "emulated", "refused"]


@dataclass(frozen=True, slots=True)
class Row:
    """One key of the input.

    key: as the input has it, with the file's name before it where there are several. where: the recipe keys that say
    it, () where nothing needs to be written. because: why it is no plain move, "" where it is one.
    """

    key: str
    value: object
    fate: Fate
    where: tuple[str, ...] = ()
    because: str = ""


@dataclass(slots=True)
class Draft:
    """What is known of the recipe so far.

    values: by recipe key, "grpo.beta"; rewards stand under "rewards". comments: by recipe key. files: texts that stand
    beside the recipe, by name. stubs: reward functions that their author has to fill in, each with its options.
    """

    values: dict[str, object] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    stubs: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def put(self, where: str, value: object, comment: str = "") -> None:
        """Writes a value that no single key of the input says."""
        self.values[where] = value
        if comment:
            self.comments[where] = comment


@dataclass(slots=True)
class Given:
    """The keys of the input that nothing has taken yet, by TRL's names.

    names: how the input spells those that it spells otherwise.
    """

    values: dict[str, object]
    draft: Draft
    names: dict[str, str] = field(default_factory=dict)
    taken: dict[str, object] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def name(self, name: str) -> str:
        """The key as the input has it."""
        return self.names.get(name, name)

    def take(self, name: str) -> object:
        """The value of a key, which is then taken; None when it is not there."""
        value = self.values.pop(name, None)
        self.taken[name] = value
        return value

    def inside(self, name: str) -> "Given":
        """The keys in the map of a key, which is then taken; none where it is not there, or no map."""
        block = self.take(name) if name in self else {}
        values = dict(block) if isinstance(block, Mapping) else {}
        return Given(values, self.draft, {key: f"{self.name(name)}.{key}" for key in values})

    def mapped(self, name: str, where: str | None, value: object = None, because: str = "") -> None:
        """The key moves to a recipe key, or stands for what grpo-run does anyway (None)."""
        self._settle(name, "mapped", where, value, because)

    def told(self, name: str, fate: Fate, where: str, because: str) -> None:
        """A row for a key whose value is written together with others."""
        said = self.values.pop(name, self.taken.get(name))
        self.taken[name] = said
        self.draft.rows.append(Row(self.name(name), said, fate, (where,), because))

    def emulated(self, name: str, where: str | None, value: object, because: str) -> None:
        """The recipe says the same in another way, which the user should see."""
        self._settle(name, "emulated", where, value, because)
        if where:
            self.draft.comments[where] = f"{self.name(name)}: {because}"

    def refused(self, name: str, because: str, where: str | None = None) -> None:
        """Nothing in a recipe says this. where: the recipe key or section beside which to tell."""
        said = self.values.pop(name, self.taken.get(name))
        self.draft.rows.append(Row(self.name(name), said, "refused", (where,) if where else (), because))

    def answer(self, name: str, said: Mapping[str, Any] | None, anyway: str = "") -> None:
        """The row of a key that a table settles. anyway: why one that is not in the table changes nothing."""
        value = self.values[name]
        if said is None:
            if anyway:
                self.emulated(name, None, None, anyway)
            else:
                self.refused(name, "no key of a recipe says it")
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
    """Whether a value is the known one, or a mapping that has some of it and nothing else."""
    if isinstance(value, dict) and isinstance(known, dict):
        return value.items() <= known.items()
    return value == known and isinstance(value, bool) == isinstance(known, bool)
