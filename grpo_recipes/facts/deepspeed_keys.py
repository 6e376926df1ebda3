"""The keys of a DeepSpeed file that DeepSpeed reads, those that grpo-run writes, and those that were removed.

The table is `data/deepspeed_keys.json`, of one release. owned: key in dots -> the recipe key for it.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from grpo_recipes.facts.released.shipped import table


class DeepSpeedKeys(NamedTuple):
    """The keys of one release. sections: those that refuse unknown fields, by path in dots, with their fields.

    values: by the same paths, field -> [bool, int or float; minimum; maximum; whether null is allowed].
    of_stages: field of the ZeRO section -> the strategies that read it, unless all do.
    """

    release: str
    read: frozenset[str]
    removed: frozenset[str]
    owned: Mapping[str, str]
    sections: Mapping[str, frozenset[str]]
    values: Mapping[str, Mapping[str, list[Any]]]
    of_stages: Mapping[str, tuple[str, ...]]


@cache
def deepspeed_keys() -> DeepSpeedKeys:
    """The table."""
    known = table("deepspeed_keys")
    zero = "zero_optimization"
    paths = {zero: zero, f"{zero}.offload_param": "offload_param", f"{zero}.offload_optimizer": "offload_optimizer"}
    paths |= {"bf16": "bf16", "fp16": "fp16"}
    alone = dict.fromkeys(known["read_by_zero3_alone"], ("zero3",))
    alone |= {f"stage3_{name}": ("zero3",) for name in alone if f"stage3_{name}" in known[zero]}
    return DeepSpeedKeys(
        release=known["deepspeed"],
        read=frozenset(known["read"]),
        removed=frozenset(known["removed"]),
        owned=known["owned"],
        sections={path: frozenset(known[name]) for path, name in paths.items()},
        values={path: known["values"][name] for path, name in paths.items()},
        of_stages=alone | dict.fromkeys(known["read_by_zero1_and_zero2_alone"], ("zero1", "zero2")),
    )
