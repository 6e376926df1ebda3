"""The module names of well-known models, and which of them PEFT's ways of naming modules match."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from grpo_recipes.facts.released.shipped import table
from grpo_recipes.facts.released.windows import is_within

_MOST_LAYERS = 1000


class ModuleNames(NamedTuple):
    """The full names of a model's modules, over all layers.

    linear: modules that an adapter fits, embedding likewise, other: everything else (norms, blocks). parameters:
    tensors outside of linear layers, such as fused experts. also: last parts of further names: of a vision part, and
    names that PEFT accepts for a fused tensor. layers: the list of blocks, number: how many.
    """

    linear: tuple[str, ...]
    embedding: tuple[str, ...]
    other: tuple[str, ...]
    parameters: tuple[str, ...]
    also: tuple[str, ...]
    layers: str
    number: int

    @property
    def adapted(self) -> tuple[str, ...]:
        """The modules that an adapter fits."""
        return self.linear + self.embedding

    def endings(self) -> tuple[str, ...]:
        """The last parts of the adapted modules' names, without repetition."""
        return tuple(dict.fromkeys(name.rpartition(".")[2] for name in self.linear)) + self.also


def module_names(config: Mapping[str, object], transformers: str | None) -> ModuleNames | None:
    """The module names for a config.json in this release of transformers; None for an unknown model or release."""
    architectures = config.get("architectures")
    model_class = architectures[0] if isinstance(architectures, list) and architectures else None
    for index, row in enumerate(table("module_names")["structures"]):
        if model_class in row["classes"]:
            window = row.get("transformers", "")
            known = not window or (transformers is not None and is_within(transformers, window))
            count = layer_count(config)
            return _names(index, count) if known and count is not None else None
    return None


def known_endings() -> frozenset[str]:
    """The last parts of the names of every linear layer in the table."""
    return frozenset(
        name.rpartition(".")[2] for row in table("module_names")["structures"] for name in row["linear"].split()
    )


def layer_count(config: Mapping[str, object]) -> int | None:
    """The model's number of blocks, None if its config.json does not say."""
    inner = config.get("text_config")
    for section in (config, inner if isinstance(inner, dict) else {}):
        for key in ("num_hidden_layers", "n_layer"):
            value = section.get(key)
            if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST_LAYERS:
                return value
    return None


@cache
def _names(index: int, count: int) -> ModuleNames:
    """The names of the model at an index of the table, with this many layers."""
    row: Mapping[str, str] = table("module_names")["structures"][index]

    def spread(kind: str) -> tuple[str, ...]:
        names = []
        for name in row.get(kind, "").split():
            inner = name.removeprefix("*.")
            names += [f"{row['layers']}.{n}.{inner}" for n in range(count)] if inner != name else [name]
        return tuple(names)

    return ModuleNames(
        linear=spread("linear"),
        embedding=spread("embedding"),
        other=spread("other"),
        parameters=spread("parameters"),
        also=tuple(row.get("also", "").split()),
        layers=row["layers"],
        number=count,
    )


def names_matching(target: str, names: Sequence[str]) -> list[str]:
    """The names that an entry of `target_modules` matches: the whole name, or its end after a dot."""
    ending = f".{target}"
    return [name for name in names if name == target or name.endswith(ending)]


@cache
def typical_names() -> tuple[str, ...]:
    """The module names of every model in the table, with two layers each, to test a pattern for an unknown model."""
    names = [_names(index, 2) for index in range(len(table("module_names")["structures"]))]
    return tuple(dict.fromkeys(name for model in names for name in model.adapted))
