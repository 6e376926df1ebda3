"""Other programs' names for keys, sections, algorithms and rewards: `other_names.json`, read when a name is unknown.

Each key lists the tools that have it, and its `home` in the format. With `differs`, or if `words` map values, the fix
is only a suggestion. Without a home, `because` says why, and `instead` what to write. Read from verl 0.9.1, ms-swift
4.6.0, LLaMA-Factory 0.9.5, axolotl 0.19.0, TRL 1.16.0.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]


@cache
def other_names() -> Mapping[str, Any]:
    """The whole table."""
    table: Mapping[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return table


def key_row(section: str, name: str) -> Row | None:
    """The row of a key, by its section if it has a meaning only there."""
    keys = other_names()["keys"]
    row: Row | None = keys.get(f"{section}.{name}") or keys.get(name)
    return row


def home_of(section: str, name: str) -> str | None:
    """The format's key that takes another program's value unchanged; None without one."""
    row = key_row(section, name)
    return None if row is None or "differs" in row else row.get("home")


def value_here(row: Row, value: object) -> object:
    """The value in the format's terms."""
    word = str(value).lower() if isinstance(value, bool) else value
    if isinstance(word, str) and word in row.get("words", ()):
        return row["words"][word]
    if row.get("split") and isinstance(value, str) and "," in value:
        return [part.strip() for part in value.split(",")]
    return value


def key_names_of(tool: str) -> dict[str, str]:
    """A program's names for keys, with the last part of the format's key."""
    rows = {name: row for name, row in other_names()["keys"].items() if tool in row["tools"].split(", ")}
    plain = {name: row["home"] for name, row in rows.items() if "home" in row and not {"differs", "tracker"} & set(row)}
    return {name: home.rpartition(".")[2] for name, home in plain.items()}


def algorithm_row(word: object) -> Row | None:
    """The row of an algorithm, by any spelling of its name."""
    letters = str(word).lower()
    for sign in "-_ .":
        letters = letters.replace(sign, "")
    row: Row | None = next((row for row in other_names()["algorithms"] if letters in row["names"]), None)
    return row


def reward_row(name: str) -> tuple[str, Row] | None:
    """The program that ships a reward of this name, and the rewards that do the same here."""
    programs = {"trl": "TRL", "open_r1": "open-r1"}
    rewards = other_names()["rewards"]
    return next(((programs[program], rewards[program][name]) for program in programs if name in rewards[program]), None)
