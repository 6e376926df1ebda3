"""Which keys of a DeepSpeed file are read, which of them grpo-run writes itself, and which are gone.

The table is `data/deepspeed_keys.json`, of one release. owned: key in dots -> the recipe key that says it.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

TABLE = Path(__file__).parent / "data" / "deepspeed_keys.json"


class DeepSpeedKeys(NamedTuple):
    """The keys of one release. sections: those that refuse unknown fields, by path in dots, with their fields.

    values: by the same paths, field -> [bool, int or float; smallest; greatest; whether it may be null].
    of_stages: field of the ZeRO section -> the strategies under which it is read, where not under all.
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
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    zero = "zero_optimization"
    paths = {zero: zero, f"{zero}.offload_param": "offload_param", f"{zero}.offload_optimizer": "offload_optimizer"}
    paths |= {"bf16": "bf16", "fp16": "fp16"}
    alone = dict.fromkeys(table["read_by_zero3_alone"], ("zero3",))
    alone |= {f"stage3_{name}": ("zero3",) for name in alone if f"stage3_{name}" in table[zero]}
    return DeepSpeedKeys(
        release=table["deepspeed"],
        read=frozenset(table["read"]),
        removed=frozenset(table["removed"]),
        owned=table["owned"],
        sections={path: frozenset(table[name]) for path, name in paths.items()},
        values={path: table["values"][name] for path, name in paths.items()},
        of_stages=alone | dict.fromkeys(table["read_by_zero1_and_zero2_alone"], ("zero1", "zero2")),
    )
