"""The context shared by all parts of a takeover."""

import os
import re
from dataclasses import dataclass
from typing import Literal

from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.schemas.models import sections
from grpo_recipes.schemas.section import written_fields
from grpo_recipes.takeover.basis.draft import Draft, Given
from grpo_recipes.takeover.basis.read import WORDS
from grpo_recipes.takeover.basis.release import Release

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
        said = {**self.given.taken, **self.given.values}
        if WORDS.get(str(said.get("use_vllm")).lower()) is not True or self._names_server:
            return False
        mode = said.get("vllm_mode") if "vllm_mode" in self.release.fields else None
        return (self._mode_where_unsaid if mode is None else mode) == "server"

    @property
    def server_gpus(self) -> int:
        """The GPUs of the run's server besides those of the training processes; none with several machines."""
        if not self.starts_server or self.draft.values.get("launch.num_nodes", 1) != 1:
            return 0
        said = self.draft.values.get("vllm_server.gpus", 1)
        return said if isinstance(said, int) and said > 0 else 1

    @property
    def _names_server(self) -> bool:
        said = {**self.given.taken, **self.given.values}
        return any(said.get(name) is not None for name in SERVER_ADDRESS)

    @property
    def _mode_where_unsaid(self) -> object:
        """The release's default vLLM mode: 0.16 and 0.17 only have a server, earlier ones none."""
        there = self.release.fields.get("vllm_mode")
        if there is not None:
            return there.default
        return "server" if "vllm_server_host" in self.release.fields else "colocate"

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


def format_value(key: str) -> object:
    """The default of format 1 for a recipe key."""
    section, _, name = key.rpartition(".")
    return written_fields(sections()[section])[name].get_default(call_default_factory=True)


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
