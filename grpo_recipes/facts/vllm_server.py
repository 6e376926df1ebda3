"""How to start the vLLM server of a TRL release, and the engine arguments that it takes.

The table is `data/vllm_server.json`. servers: the releases, the arguments of Python, the environment, and the engine's
arguments that it takes with the releases that do, null for all. words: further arguments, by release. Up to 1.10 TRL
has its own server, later it uses vLLM's. Source: trl/scripts/vllm_serve.py of 28 releases from 0.16.1 to 1.16.0.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from grpo_recipes.facts.released.shipped import table
from grpo_recipes.facts.released.windows import is_within


class ServerProgram(NamedTuple):
    """The command that starts a server. command: after the Python, with {model}, {host} and {port}; words come last.

    takes: the engine's arguments that it has a flag for, None for all of them.
    """

    command: tuple[str, ...]
    words: tuple[str, ...]
    environment: Mapping[str, str]
    takes: frozenset[str] | None

    def flags(self, arguments: Mapping[str, object]) -> list[str]:
        """The arguments as flags, skipping those without a flag."""
        taken = {name: value for name, value in arguments.items() if self.takes is None or name in self.takes}
        is_vllms = self.takes is None
        return [word for name, value in taken.items() for word in _flag(name, value, is_vllms=is_vllms)]


def server_program(versions: Mapping[str, str | None]) -> ServerProgram | None:
    """The server for a stack, None if TRL has none or its version is unknown."""
    trl = versions.get("trl")
    rows = [row for row in table("vllm_server")["servers"] if trl is not None and is_within(trl, row["trl"])]
    if not rows or trl is None:
        return None
    takes: Mapping[str, str] | None = rows[0]["takes"]
    words = [row["words"] for row in table("vllm_server")["words"] if _holds(row, versions)]
    return ServerProgram(
        command=tuple(rows[0]["command"]),
        words=tuple(word for some in words for word in some),
        environment=rows[0]["environment"],
        takes=None if takes is None else frozenset(name for name, since in takes.items() if is_within(trl, since)),
    )


def _holds(row: Mapping[str, Any], versions: Mapping[str, str | None]) -> bool:
    installed = {package: versions.get(package) for package in ("trl", "vllm") if package in row}
    return all(version is not None and is_within(version, row[package]) for package, version in installed.items())


def _flag(name: str, value: object, *, is_vllms: bool) -> list[str]:
    """One argument. vLLM has --key and --no-key for booleans; TRL's parser takes the word."""
    flag = f"--{name.replace('_', '-')}" if is_vllms else f"--{name}"
    if value is None:
        return []
    if isinstance(value, bool):
        return [flag if value else f"--no-{flag[2:]}"] if is_vllms else [flag, str(value)]
    if isinstance(value, dict):
        return [flag, json.dumps(value)]
    if isinstance(value, list):
        return [flag, *map(str, value)]
    return [flag, str(value)]
