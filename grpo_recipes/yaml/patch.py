"""Applies a finding's fix to the values of a recipe."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from grpo_recipes.contract.findings.finding import Patch


def patched(values: Mapping[str, object], patches: Iterable[Patch]) -> dict[str, Any]:
    """A copy of the values with every patch applied; maps on the way to a value are made, list items must exist."""
    result: dict[str, Any] = copy.deepcopy(dict(values))
    for patch in patches:
        node: Any = result
        for part in patch.path[:-1]:
            if isinstance(node, dict) and node.get(str(part)) is None:
                if patch.remove:
                    break
                node[str(part)] = {}
            node = node[part]
        else:
            _apply(node, patch)
    return result


def _apply(node: Any, patch: Patch) -> None:
    """Applies a patch to the map or list that has the last part of its path."""
    if not patch.remove:
        node[patch.path[-1]] = copy.deepcopy(patch.value)
    elif isinstance(node, dict):
        node.pop(patch.path[-1], None)
    else:
        del node[patch.path[-1]]
