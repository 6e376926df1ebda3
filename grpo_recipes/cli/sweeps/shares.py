"""Assigns devices to the runs of a sweep that train at once, so that they do not share any."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence

from grpo_recipes.contract.plan import Plan
from grpo_recipes.engines.catalog import engine_of


def shares_of(plans: Sequence[Plan]) -> list[Mapping[str, str]]:
    """Environment variables, one set per parallel run; the largest run determines how many fit.

    Empty if nothing can be started from here.
    """
    # All plans of a world need the same devices, and finding them takes a moment.
    kinds = {repr((plan.world, plan.vllm and plan.vllm.server)): plan for plan in plans}
    each: list[list[Mapping[str, str]]] = [list(engine_of(plan).shares(plan)) for plan in kinds.values()]
    return min(each, key=len, default=[])


@contextlib.contextmanager
def seen_with(share: Mapping[str, str]) -> Iterator[None]:
    """Limits this process to the devices of a run with this share."""
    before = {name: os.environ.get(name) for name in share}
    os.environ.update(share)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
