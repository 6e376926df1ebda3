"""The context shared by all parts of a takeover."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.schemas.models import sections
from grpo_recipes.schemas.section import fields_by_key
from grpo_recipes.takeover.basis.draft import Draft, Fate, Given, Row, Unreadable
from grpo_recipes.takeover.basis.release import Release
from grpo_recipes.takeover.basis.trl_values import WORDS, as_trl_reads

SERVER_ADDRESS = ("vllm_server_base_url", "vllm_server_host", "vllm_server_port")
Dialect = Literal["trl", "open_r1", "axolotl"]


@dataclass(frozen=True, slots=True)
class Situation:
    """One takeover.

    dialect: the program whose script reads the file. folder: of the future recipe. writes_files: whether files can be
    written next to it.
    """

    given: Given
    draft: Draft
    release: Release
    dialect: Dialect
    folder: str
    stem: str
    writes_files: bool

    @property
    def processes(self) -> int | None:
        """The total number of training processes, None if unknown."""
        values = self.draft.values
        if isinstance(in_all := values.get("launch.num_processes"), int) and in_all > 0:
            return in_all
        each, machines = values.get("launch.gpus_per_node"), values.get("launch.num_nodes", 1)
        if not isinstance(each, int) or not isinstance(machines, int) or each < 1:
            return None
        if self.starts_server and machines > 1:
            return each * (machines - 1)
        return (each - self.server_gpus) * machines or None

    @property
    def starts_server(self) -> bool:
        """Whether the run will start a vLLM server, which gets its own machine if there are several."""
        asked = {**self.given.taken, **self.given.values}
        fields = self.release.fields
        if WORDS.get(str(asked.get("use_vllm")).lower()) is not True or self.names_server:
            return False
        if "vllm_mode" not in fields:  # 0.16 and 0.17 only have a server, earlier ones none
            return "vllm_server_host" in fields
        mode = asked.get("vllm_mode")
        return (fields["vllm_mode"].default if mode is None else mode) == "server"

    @property
    def names_server(self) -> bool:
        """Whether the configuration has the address of a server."""
        asked = {**self.given.taken, **self.given.values}
        return any(asked.get(name) is not None for name in SERVER_ADDRESS)

    @property
    def server_gpus(self) -> int:
        """The GPUs of the run's server besides those of the training processes; none with several machines."""
        if not self.starts_server or self.draft.values.get("launch.num_nodes", 1) != 1:
            return 0
        gpus = self.draft.values.get("vllm_server.gpus", 1)
        return gpus if isinstance(gpus, int) and gpus > 0 else 1

    def read(self, name: str, kind: str, where: str = "") -> object:
        """The value that TRL's parser makes of a key; None without one, or, with a row, if TRL cannot take it."""
        try:
            return as_trl_reads(self.given.values[name], kind) if name in self.given else None
        except Unreadable as problem:
            self.given.refuse_key(name, f"TRL cannot take it: {problem}", where)
            return None

    def block(self, name: str, where: str) -> Given:
        """The keys in the map of a key, which may be written as JSON; none, with a row, if there are none."""
        block = self.read(name, "dict | str | None", where)
        if name in self.given:
            self.given.values[name] = block
            if not block:
                self.given.map_key(name)
            elif not isinstance(block, Mapping):
                self.given.refuse_key(name, "it must be a map", where)
        return self.given.inside(name)

    def value(self, name: str) -> object:
        """The future value of a GRPOConfig field: from the recipe, the input, or the release's default."""
        field = classified_fields().get(name)
        if field is not None and field.home in self.draft.values:
            return self.draft.values[field.home]
        if f"trl.{name}" in self.draft.values:
            return self.draft.values[f"trl.{name}"]
        if name in self.given.values:
            return self.given.values[name]
        default = self.release.fields.get(name)
        return None if default is None else default.default

    def settle(self, name: str, where: str, fate: Fate, because: str) -> None:
        """Changes the fate of the key that became this recipe key; a default of the release gets a row."""
        rows = self.draft.rows
        for index, row in enumerate(rows):
            if row.where == (where,) and row.fate != "refused":
                rows[index] = replace(row, fate=fate, because=because)
                return
        key = f"{name} (the default of trl {self.release.trl})"
        rows.append(Row(key, self.draft.values[where], fate, (where,), because))


def format_value(key: str) -> object:
    """The default of format 1 for a recipe key."""
    section, _, name = key.rpartition(".")
    return fields_by_key(sections()[section])[name].get_default(call_default_factory=True)


def beside_the_recipe(path: str, folder: str) -> str:
    """A path below this folder relative to the recipe's folder; any other path is unchanged."""
    if path.startswith(("/", "~")) or not (path.startswith(("./", "../")) or os.path.exists(path)):
        return path
    relative = os.path.relpath(os.path.abspath(path), folder)
    return relative if relative.startswith("../") else f"./{relative}"


def recipe_name(stem: str) -> str:
    """A name for the recipe, from the file's name."""
    name = re.sub(r"[^a-z0-9._-]+", "-", stem.lower()).strip("-._")[:64]
    return name or "taken-over"
