"""Reads a DeepSpeed file: data/deepspeed.json has the keys with a home, batch sizes follow from the recipe, the rest
stays.
"""

from collections.abc import Mapping

from grpo_recipes.facts.deepspeed_keys import deepspeed_keys
from grpo_recipes.takeover.basis.context import Situation
from grpo_recipes.takeover.basis.draft import Given
from grpo_recipes.takeover.basis.read import read_mapping, table_of

EXTRA = "distributed.deepspeed"


def take_deepspeed(situation: Situation, path: str) -> None:
    """Takes over all keys of a DeepSpeed file. Raises Refusal if it cannot be read."""
    flat = dict(_flat(read_mapping(path, situation.draft, "deepspeed: ")))
    given = Given(flat, situation.draft, {name: f"deepspeed: {name}" for name in flat})
    homes = table_of("deepspeed")["homes"]
    for name in [*(name for name in homes if name in flat), *(name for name in flat if name not in homes)]:
        _key(situation, given, name)


def _flat(block: Mapping[str, object], above: str = "") -> list[tuple[str, object]]:
    """The values by keys in dots."""
    pairs: list[tuple[str, object]] = []
    for key, value in block.items():
        name = f"{above}{key}"
        pairs.extend(_flat(value, f"{name}.") if isinstance(value, Mapping) and value else [(name, value)])
    return pairs


def _key(situation: Situation, given: Given, name: str) -> None:
    value, table = given.values[name], table_of("deepspeed")
    top, _, last = name.partition(".")
    owned = deepspeed_keys().owned.get(name) or deepspeed_keys().owned.get(top) or table["ours"].get(name)
    if name in table["homes"]:
        given.answer(name, table["homes"][name])
    elif value == "auto":
        given.map_key(name, because="grpo-run and the trainer fill it in")
    elif top in table["precision"] and last == "enabled":
        if bool(value) == bool(situation.value(top)):
            given.map_key(name, because=f"training.{top} sets it")
        else:
            given.refuse_key(name, f"the trainer refuses any value but training.{top}", f"training.{top}")
    elif top in table["refused"]:
        given.refuse_key(name, table["refused"][top], EXTRA)
    elif owned and top not in table["precision"]:
        given.emulate_key(name, f"{owned} sets it")
    elif not _is_read(name):
        given.refuse_key(name, f"DeepSpeed {deepspeed_keys().release} does not read it", EXTRA)
    else:
        given.map_key(name, f"{EXTRA}.{name}", value)


def _is_read(name: str) -> bool:
    """Whether DeepSpeed reads a key; keys inside an open section are accepted as they are."""
    known, parts = deepspeed_keys(), name.split(".")
    sections = ((known.sections.get(".".join(parts[:depth])), parts[depth]) for depth in range(1, len(parts)))
    return parts[0] in known.read and all(section is None or key in section for section, key in sections)
